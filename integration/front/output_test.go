package front

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	switch os.Getenv("FRONT_TEST_ROLE") {
	case "stdout":
		takeStdoutChild()
		return
	case "serve":
		serveChild()
		return
	}
	goleak.VerifyTestMain(m)
}

func pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	return r, w
}

func closeOutput(t *testing.T, o *Output) {
	t.Helper()
	if err := o.Close(10 * time.Second); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// Many goroutines write lines of all sizes, some corked; each line arrives
// whole, and those of one goroutine in order.
func TestOutputOrder(t *testing.T) {
	for _, kind := range []string{"pipe", "file"} {
		t.Run(kind, func(t *testing.T) {
			r, w := pipe(t)
			if kind == "file" {
				var err error
				if w, err = os.Create(filepath.Join(t.TempDir(), "out")); err != nil {
					t.Fatal(err)
				}
				defer func() { _ = w.Close() }()
			}
			const writers, lines = 8, 200
			o := newOutput(w, new(Unread), nil)
			var wg sync.WaitGroup
			for g := range writers {
				wg.Go(func() {
					big := bytes.Repeat([]byte{byte('a' + g)}, 100<<10)
					small := make([]byte, 0, 64)
					for i := range lines {
						small = fmt.Appendf(small[:0], "%d %d ", g, i)
						var err error
						switch {
						case i%20 == 7:
							err = o.Write(small, big)
						case i%10 == 3:
							o.Hold(append(small, big[:i]...))
							if i%20 == 3 {
								o.Release()
							}
						default:
							err = o.Write(small, big[:i])
						}
						if err != nil {
							t.Errorf("Write: %v", err)
							return
						}
					}
				})
			}
			finished := make(chan struct{})
			go func() {
				defer close(finished)
				wg.Wait()
				closeOutput(t, o)
				if kind == "pipe" {
					_ = w.Close()
				}
			}()
			if kind == "file" {
				<-finished
				var err error
				if r, err = os.Open(w.Name()); err != nil {
					t.Fatal(err)
				}
				defer func() { _ = r.Close() }()
			}
			next := make([]int, writers)
			scanner := bufio.NewScanner(r)
			scanner.Buffer(nil, 1<<20)
			total := 0
			for scanner.Scan() {
				writer, text, _ := strings.Cut(scanner.Text(), " ")
				number, rest, _ := strings.Cut(text, " ")
				g, errG := strconv.Atoi(writer)
				i, errI := strconv.Atoi(number)
				if errG != nil || errI != nil {
					t.Fatalf("a broken line: %.100q", scanner.Text())
				}
				if i != next[g] {
					t.Fatalf("writer %d: line %d came when %d was due", g, i, next[g])
				}
				next[g]++
				total++
				want := i
				if i%20 == 7 {
					want = 100 << 10
				}
				if rest != strings.Repeat(string(rune('a'+g)), want) {
					t.Fatalf("writer %d line %d: broken, %d bytes", g, i, len(rest))
				}
			}
			if total != writers*lines {
				t.Fatalf("%d lines, want %d (%v)", total, writers*lines, scanner.Err())
			}
			<-finished
		})
	}
}

// Small parts may be changed after Write, even where they wait in the queue.
func TestOutputCopiesSmallParts(t *testing.T) {
	r, w := pipe(t)
	o := newOutput(w, new(Unread), nil)
	const lines = 5000 // more than a pipe holds
	buf := make([]byte, 100)
	for i := range lines {
		copy(buf, fmt.Sprintf("%0100d", i))
		if err := o.Write(buf); err != nil {
			t.Fatal(err)
		}
	}
	clear(buf)
	scanner := bufio.NewScanner(r)
	for i := range lines {
		if !scanner.Scan() || scanner.Text() != fmt.Sprintf("%0100d", i) {
			t.Fatalf("line %d: %q", i, scanner.Text())
		}
	}
	closeOutput(t, o)
}

func TestOutputClientNotReading(t *testing.T) {
	_, w := pipe(t)
	o := newOutput(w, new(Unread), nil)
	line := make([]byte, 4<<20)
	var err error
	count := 0
	for ; err == nil && count < 100; count++ {
		err = o.Write(line)
	}
	if !errors.Is(err, ErrNotReading) || count < 60 {
		t.Errorf("after %d lines of 4 MiB: %v", count, err)
	}
	select {
	case <-o.Failed():
	case <-time.After(10 * time.Second):
		t.Error("Failed is not closed")
	}
	if err := o.Close(time.Millisecond); !errors.Is(err, ErrNotReading) {
		t.Errorf("Close: %v", err)
	}
	if err := o.Write(line); !errors.Is(err, ErrNotReading) {
		t.Errorf("Write after the failure: %v", err)
	}
}

func TestOutputReaderGone(t *testing.T) {
	r, w := pipe(t)
	o := newOutput(w, new(Unread), nil)
	_ = r.Close()
	var err error
	deadline := time.After(10 * time.Second)
	for err == nil {
		err = o.Write([]byte("line"))
		select {
		case <-deadline:
			t.Fatal("writing to a pipe without a reader never fails")
		default:
		}
	}
	if closeErr := o.Close(time.Second); closeErr == nil {
		t.Error("Close reports no error")
	}
}

func TestOutputCloseGivesUp(t *testing.T) {
	_, w := pipe(t)
	o := newOutput(w, new(Unread), nil)
	if err := o.Write(make([]byte, 8<<20)); err != nil {
		t.Fatal(err)
	}
	if err := o.Close(20 * time.Millisecond); err == nil {
		t.Error("Close lost 8 MiB without an error")
	}
	if err := o.Write([]byte("x")); err == nil {
		t.Error("Write after Close reports no error")
	}
}

func TestOutputHoldsABurstBack(t *testing.T) {
	t.Run("until it is released", func(t *testing.T) { testHold(t, func(o *Output) { o.Hold([]byte("last")); o.Release() }) })
	t.Run("until the next line", func(t *testing.T) {
		testHold(t, func(o *Output) {
			if err := o.Write([]byte("last")); err != nil {
				t.Error(err)
			}
		})
	})
}

func testHold(t *testing.T, end func(o *Output)) {
	r, w := pipe(t)
	o := newOutput(w, new(Unread), nil)
	for i := range 99 {
		o.Hold(fmt.Appendf(nil, "line %d", i))
	}
	if err := r.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	if n, err := r.Read(buf); err == nil {
		t.Errorf("%q was not held back", buf[:n])
	}
	end(o)
	if err := r.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	n, err := r.Read(buf)
	if err != nil || bytes.Count(buf[:n], []byte{'\n'}) != 100 {
		t.Errorf("one read gave %d lines, %v; want 100", bytes.Count(buf[:n], []byte{'\n'}), err)
	}
	closeOutput(t, o)
}
