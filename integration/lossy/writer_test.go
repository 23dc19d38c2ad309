package lossy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// soon bounds the wait for what must happen; it says nothing about speed.
const soon = 20 * time.Second

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	t.Cleanup(cancel)
	return ctx
}

func TestEverythingIsWrittenInOrder(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	var want strings.Builder
	for i := range 1000 {
		line := fmt.Sprintf("line %d\n", i)
		want.WriteString(line)
		if n, err := io.WriteString(w, line); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	if n := w.Close(within(t)); n != 0 {
		t.Errorf("%d lines dropped", n)
	}
	if out.String() != want.String() {
		t.Errorf("%d bytes written, want %d in order", out.Len(), want.Len())
	}
	_, _ = io.WriteString(w, "too late\n")
	if n := w.Close(within(t)); n != 1 {
		t.Errorf("%d lines dropped after the end, want 1", n)
	}
}

// pipe is a writer that nobody reads until it is opened.
type pipe struct {
	entered, open chan struct{}
	once          sync.Once
	bytes.Buffer
}

func (p *pipe) Write(b []byte) (int, error) {
	p.once.Do(func() { close(p.entered) })
	<-p.open
	return p.Buffer.Write(b)
}

// TestNobodyReads: neither who writes nor who closes waits, and it is said how
// much is missing once somebody reads.
func TestNobodyReads(t *testing.T) {
	p := &pipe{entered: make(chan struct{}), open: make(chan struct{})}
	w := NewWriter(p)
	line := strings.Repeat("x", 1023) + "\n"
	_, _ = io.WriteString(w, line)
	select {
	case <-p.entered:
	case <-time.After(soon):
		t.Fatal("it writes nothing")
	}
	const more = 2 * MaxQueued / 1024
	for range more - 1 {
		_, _ = io.WriteString(w, line)
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if n := w.Close(over); n != more {
		t.Errorf("%d lines dropped, want all %d", n, more)
	}
	close(p.open)
	dropped := w.Close(within(t))
	if got := uint64(strings.Count(p.String(), line)); got+dropped != more || got == 0 {
		t.Errorf("%d written and %d dropped of %d", got, dropped, more)
	}
	if want := fmt.Sprintf("metamcp: %d lines of the log were dropped here", dropped); !strings.Contains(p.String(), want) {
		t.Errorf("it ends with %q, want %q", p.String()[max(0, p.Len()-200):], want)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestABrokenPipeHurtsNobody(t *testing.T) {
	w := NewWriter(broken{})
	for range 10 {
		_, _ = io.WriteString(w, "x\n")
	}
	if n := w.Close(within(t)); n != 10 {
		t.Errorf("%d dropped, want 10", n)
	}
}
