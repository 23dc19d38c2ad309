package actors

import (
	"context"
	"errors"
	"testing"
	"time"
)

// stuck is a writer that takes nothing until it is opened.
type stuck struct{ open chan struct{} }

func (s stuck) Write(b []byte) (int, error) {
	<-s.open
	return len(b), nil
}

func TestATraceThatNobodyTakes(t *testing.T) {
	to := stuck{make(chan struct{})}
	trace := NewTrace(to, TraceText)
	for range 2 * traceBuffer {
		trace.Event("a", "b", "c", 0)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := trace.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close returns %v, want that its time was over", err)
	}
	close(to.open)
	select {
	case <-trace.done:
	case <-time.After(soon):
		t.Error("the writer does not end when somebody reads")
	}
}
