package actors

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// within runs f as an actor does.
func (r *rig) within(f func(ctx *kernel.Context)) {
	r.t.Helper()
	over := make(chan struct{})
	pid, done, err := r.e.sys.SpawnRoot("within", func() kernel.Actor {
		return &listener{spawn: func(ctx *kernel.Context) {
			defer close(over)
			f(ctx)
		}}
	}, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, c := range []<-chan struct{}{over, done} {
		select {
		case <-c:
		case <-time.After(soon):
			r.t.Fatal("the actor does not end")
		}
		r.e.sys.Stop(pid)
	}
}

// renewing is the notices' actor with one subscription of a server, whose child the
// test is.
type renewing struct {
	*noticesActor
	ctx  *kernel.Context
	last uint64 // child
	at   place
	of   topicAt
	port *subscribed
}

func newRenewing(ctx *kernel.Context, e *Engine) *renewing {
	w := &renewing{noticesActor: newNotices(e), ctx: ctx, at: place{server: "x"}, of: topicAt{Topic: watchedTopic}, port: &subscribed{}}
	w.Receive(ctx, &Subscribe{Topic: watchedTopic, As: "u", Port: w.port, Reply: func(*messages.Answer) {}})
	w.comes()
	return w
}

// comes is a child that takes the subscription.
func (w *renewing) comes() {
	w.last++
	w.Receive(w.ctx, &childReady{server: "x", instance: w.last, pid: w.ctx.Self()})
	w.Receive(w.ctx, &subscribedAt{w.of, &messages.Answer{Result: json.RawMessage(`{}`), Instance: w.last}})
}

func (w *renewing) dies() time.Duration {
	w.Receive(w.ctx, &childGone{server: "x", instance: w.last})
	return w.renewal[w.at].pause
}

// A child that lived for long after a renewal makes the next one wait no longer than
// the first did; one that dies at once, or refuses, does.
func TestPauseOfARenewalIsForgotten(t *testing.T) {
	r := newRig(t, nil)
	r.add("x", announces(), nil)
	r.within(func(ctx *kernel.Context) {
		w := newRenewing(ctx, r.e)
		for n := range 7 {
			if pause := w.dies(); pause != firstRenewal {
				t.Errorf("death %d: the renewal waits for %v", n+1, pause)
			}
			w.Receive(ctx, &renewDue{w.at})
			w.comes()
			w.renewal[w.at].since = time.Now().Add(-lastRenewal - time.Second)
		}
		w.dies()
		for want := 2 * firstRenewal; want < lastRenewal; want *= 2 {
			w.Receive(ctx, &renewDue{w.at})
			w.comes()
			if pause := w.dies(); pause != want {
				t.Errorf("the renewal waits for %v instead of %v", pause, want)
			}
		}
		w.renewal[w.at].timer.Stop()
	})
}

// A renewal that was refused says nothing of how long the child before lived.
func TestRefusedRenewalsWaitLonger(t *testing.T) {
	r := newRig(t, nil)
	r.add("x", announces(), nil)
	r.within(func(ctx *kernel.Context) {
		w := newRenewing(ctx, r.e)
		w.dies()
		w.Receive(ctx, &renewDue{w.at})
		w.comes()
		w.renewal[w.at].since = time.Now().Add(-lastRenewal - time.Second)
		for want := w.dies(); want < lastRenewal; {
			w.Receive(ctx, &renewDue{w.at})
			w.Receive(ctx, &subscribedAt{w.of, &messages.Answer{Err: &messages.Error{}}})
			want = min(2*want, lastRenewal)
			if pause := w.renewal[w.at].pause; pause != want {
				t.Errorf("the renewal waits for %v instead of %v", pause, want)
			}
		}
		w.renewal[w.at].timer.Stop()
	})
}

// With the last subscription of a server goes what is known of its renewals.
func TestRenewalsEndWithTheirSubscribers(t *testing.T) {
	r := newRig(t, nil)
	r.add("x", announces(), nil)
	r.within(func(ctx *kernel.Context) {
		for _, back := range []bool{true, false} {
			w := newRenewing(ctx, r.e)
			w.dies()
			timer := w.renewal[w.at].timer
			if back {
				w.Receive(ctx, &renewDue{w.at})
				w.comes()
			}
			w.Receive(ctx, &Unsubscribe{Port: w.port})
			if len(w.topics) > 0 || len(w.renewal) > 0 {
				t.Errorf("back %v: %d topics, %d renewals are left", back, len(w.topics), len(w.renewal))
			}
			timer.Stop()
		}
	})
}
