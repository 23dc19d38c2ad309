package control

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// quietHost is a fake that never has anything to say.
type quietHost struct{ lookedAt chan struct{} }

func (quietHost) Status(context.Context, bool) (*messages.HostStatus, error) {
	return nil, errors.New("nothing to say")
}

func (quietHost) Draining(context.Context) (bool, error) { return false, nil }

func (quietHost) Trace(context.Context) (<-chan messages.TraceRecord, error) { return nil, nil }

func (h quietHost) LogFiles(string) ([]string, error) {
	select {
	case h.lookedAt <- struct{}{}:
	default:
	}
	return nil, nil
}

// A stream outlives the time for requests, and the deadline of its last write
// does not spoil its end.
func TestQuietStreamsStay(t *testing.T) {
	h := quietHost{lookedAt: make(chan struct{})}
	const short = time.Second // a loaded machine reads a request within it
	s, err := Serve(Options{StateDir: t.TempDir(), Host: h, WriteTimeout: short, requestTime: short})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Dial(s.Info())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	attached := make(chan struct{})
	go func() {
		for rec, err := range c.Trace(ctx) {
			if err != nil {
				ended <- err
				return
			}
			if rec.Kind == messages.TraceStart {
				close(attached)
			}
		}
		ended <- nil
	}()
	<-attached
	text, err := c.Logs(ctx, "s", LogOptions{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	for range 6 { // a followed log is looked at every 250 ms
		select {
		case <-h.lookedAt:
		case err := <-ended:
			t.Fatalf("the trace ended on its own: %v", err)
		case <-ctx.Done():
			t.Fatal("the log is not looked at any more")
		}
	}
	if err := s.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := <-ended; err != nil || ctx.Err() != nil {
		t.Errorf("the trace of a host that ended in order: %v", errors.Join(err, ctx.Err()))
	}
	if n, err := text.Read(make([]byte, 1)); n != 0 || err == nil || err.Error() != "EOF" {
		t.Errorf("the log of a host that ended in order: %d, %v", n, err)
	}
}
