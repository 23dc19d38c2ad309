//go:build unix

package rawio

import (
	"bytes"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"time"
)

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

func descriptor(t *testing.T, f *os.File, use func(fd uintptr)) {
	t.Helper()
	raw, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(use); err != nil {
		t.Fatal(err)
	}
}

func TestTransfers(t *testing.T) {
	r, w := pipe(t)
	buf := make([]byte, 200<<10)
	descriptor(t, r, func(fd uintptr) {
		if _, err := Read(fd, buf); !errors.Is(err, syscall.EAGAIN) {
			t.Errorf("reading an empty pipe: %v, want EAGAIN", err)
		}
	})
	text := bytes.Repeat([]byte("0123456789"), 20<<10)
	for _, size := range []int{1, 1000, largest, len(text)} {
		wrote := 0
		descriptor(t, w, func(fd uintptr) {
			n, err := Write(fd, text[:size])
			if err != nil || n == 0 {
				t.Errorf("writing %d bytes: %d, %v", size, n, err)
			}
			wrote = n
			if size == len(text) {
				if _, err := Write(fd, text); !errors.Is(err, syscall.EAGAIN) {
					t.Errorf("writing to a full pipe: %v, want EAGAIN", err)
				}
			}
		})
		descriptor(t, r, func(fd uintptr) {
			n, err := Read(fd, buf)
			if err != nil || !bytes.Equal(buf[:n], text[:wrote]) {
				t.Errorf("reading %d bytes back: %d, %v", wrote, n, err)
			}
		})
	}
	many := make([][]byte, 100)
	for i := range many {
		many[i] = text[i*10 : i*10+i%3*5] // every third is empty
	}
	for _, parts := range [][][]byte{{text[:7]}, {nil, text[:7], {}}, {text[:5], nil, text[:9], text[:1]}, {text[:30<<10], text[:50<<10]}, many} {
		whole := bytes.Join(parts, nil)
		var got []byte
		for len(got) < len(whole) {
			rest, before := [][]byte{}, len(got)
			for _, p := range parts {
				rest = append(rest, p[min(before, len(p)):])
				before -= min(before, len(p))
			}
			descriptor(t, w, func(fd uintptr) {
				if n, err := Writev(fd, rest); err != nil || n == 0 {
					t.Fatalf("writing %d parts of %d bytes behind %d: %d, %v", len(parts), len(whole), len(got), n, err)
				}
			})
			descriptor(t, r, func(fd uintptr) {
				n, err := Read(fd, buf)
				if err != nil {
					t.Fatalf("reading %d parts of %d bytes behind %d: %v", len(parts), len(whole), len(got), err)
				}
				got = append(got, buf[:n]...)
			})
		}
		if !bytes.Equal(got, whole) {
			t.Errorf("%d parts of %d bytes came out changed", len(parts), len(whole))
		}
	}
	descriptor(t, w, func(fd uintptr) {
		if n, err := Writev(fd, [][]byte{nil, {}}); n != 0 || err != nil {
			t.Errorf("writing nothing: %d, %v", n, err)
		}
	})
	descriptor(t, r, func(fd uintptr) {
		if n, err := Read(fd, nil); n != 0 || err != nil {
			t.Errorf("reading into nothing: %d, %v", n, err)
		}
	})
}

func TestReader(t *testing.T) {
	r, w := pipe(t)
	in, err := NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() {
		buf := make([]byte, 16)
		n, err := in.Read(buf) // waits in the poller
		if err != nil {
			got <- err.Error()
			return
		}
		got <- string(buf[:n])
	}()
	if _, err := w.WriteString("hello"); err != nil {
		t.Fatal(err)
	}
	if s := <-got; s != "hello" {
		t.Errorf("read %q", s)
	}
	if err := r.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("past the deadline: %v", err)
	}
	if err := r.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	if _, err := in.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

// A write of more than the pipe holds waits for the reader, and for the end
// where there is none any more.
func TestWriter(t *testing.T) {
	r, w := pipe(t)
	out, err := NewWriter(w)
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("0123456789"), 100<<10)
	wrote := make(chan error, 1)
	go func() {
		n, err := out.Write(text)
		if err == nil && n != len(text) {
			err = io.ErrShortWrite
		}
		wrote <- err
	}()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, text) {
		t.Errorf("what was read is not what was written: %v", err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	if n, err := out.Write(nil); n != 0 || err != nil {
		t.Errorf("writing nothing: %d, %v", n, err)
	}
	_ = r.Close()
	if _, err := out.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("writing to nobody: %v, want EPIPE", err)
	}
}
