package metamcp

import (
	"context"
	"testing"
	"time"
)

// The end of one round of a call takes nothing from the next, which began before.
func TestACancelReachesTheNextRound(t *testing.T) {
	s := &asker{waits: map[uint64]*round{}}
	s.ctx, s.gone = context.WithCancel(t.Context())
	defer s.work.Wait()
	defer s.gone()
	const call = 7
	first, next := make(chan context.Context, 1), make(chan context.Context, 1)
	s.begin(call, func(ctx context.Context) {
		first <- ctx
		s.begin(call, func(ctx context.Context) {
			next <- ctx
			<-ctx.Done()
		})
	})
	over := func(ctx context.Context, what string) {
		t.Helper()
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			t.Fatal(what)
		}
	}
	over(<-first, "the first round does not end")
	ctx := <-next
	s.cancel(call)
	over(ctx, "the next round does not hear that its call was cancelled")
	s.work.Wait()
	if len(s.waits) != 0 {
		t.Errorf("there is left %v", s.waits)
	}
}
