package web

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// slowHost is a host that has calls all the time, and takes time to describe itself.
type slowHost struct {
	Host
	takes time.Duration
	looks int
}

func (h *slowHost) Status(ctx context.Context) (*messages.HostStatus, error) {
	h.looks++
	select {
	case <-time.After(h.takes):
		return &messages.HostStatus{}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (h *slowHost) Trace(ctx context.Context) (<-chan messages.TraceRecord, error) {
	out := make(chan messages.TraceRecord)
	go func() {
		defer close(out)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			select {
			case out <- messages.TraceRecord{Kind: messages.TraceRequest}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

// A host that takes long to describe itself is not busy with that while a page is open.
func TestLooksTakeASmallShareOfTheTime(t *testing.T) {
	for name, c := range map[string]struct {
		takes     time.Duration
		most, min int // looks in a minute
	}{
		"few servers":     {time.Millisecond, 300, 250},
		"thousands":       {100 * time.Millisecond, 61, 50},
		"far too many":    {time.Second, 7, 5},
		"does not answer": {time.Hour, 5, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				host := &slowHost{takes: c.takes}
				hub := newHub(ctx, host, slog.New(slog.DiscardHandler))
				if err := hub.join(); err != nil {
					t.Fatal(err)
				}
				<-time.After(time.Minute)
				hub.leave()
				cancel()
				hub.wg.Wait()
				if host.looks > c.most || host.looks < c.min {
					t.Errorf("%d looks in a minute, want %d to %d", host.looks, c.min, c.most)
				}
			})
		})
	}
}
