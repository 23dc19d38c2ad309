package metamcp

import (
	"context"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
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

// A call may fail for what somebody mends just before the failure arrives: nothing is
// left to ask for then, and it is made again, once.
func TestWhatWasMendedMeanwhileIsTriedAgain(t *testing.T) {
	s := &asker{e: &Engine{cures: newCures()}, waits: map[uint64]*round{}}
	s.ctx, s.gone = context.WithCancel(t.Context())
	defer s.work.Wait()
	defer s.gone()
	for _, tt := range []struct {
		name    string
		subject string
		fails   *Error
		again   bool
	}{
		{"a login", loginAt("docs"), &Error{Server: "docs", Class: messages.ClassAuth}, true},
		{"secrets", secretsOf("docs"), &Error{Server: "docs", Code: messages.CodeConfiguration}, true},
		{"of another server", loginAt("other"), &Error{Server: "docs", Class: messages.ClassAuth}, false},
		{"something else", loginAt("docs"), &Error{Server: "docs", Class: messages.ClassOffline}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			again := make(chan messages.ReplyPort, 1)
			w := &curable{call: 7, again: func(reply messages.ReplyPort) { again <- reply }}
			s.watch(w)
			f := &cure{c: s.e.cures, r: &remedy{subject: tt.subject}}
			f.c.remove(f, true)
			if got := w.mendedMeanwhile(&messages.Answer{Err: tt.fails}); got != tt.again {
				t.Fatalf("mended meanwhile: %v", got)
			}
			if !tt.again {
				return
			}
			w.Answer(&messages.Answer{Err: tt.fails})
			select {
			case <-again:
			case <-time.After(time.Minute):
				t.Fatal("the call is not made again")
			}
			s.work.Wait()
			if w.mendedMeanwhile(&messages.Answer{Err: tt.fails}) {
				t.Error("it is tried for ever")
			}
		})
	}
}
