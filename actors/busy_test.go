package actors

import (
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// TestWaitAtABusyChildIsBounded: a call without a time of its own waits no longer for a
// child that others keep busy than the child may then take for it, whether it came when
// that was ready or waited for its start.
func TestWaitAtABusyChildIsBounded(t *testing.T) {
	long := func(c *messages.Call) { c.Timeout = time.Minute }
	for _, early := range []bool{false, true} {
		g := &gatekeeper{}
		r := newRig(t, nil)
		starts := make(chan struct{})
		sc := g.script()
		sc.launch = func(start int) error {
			if start > 1 {
				<-starts
			}
			return nil
		}
		r.add("x", sc, func(s *messages.ServerSpec) {
			s.MaxInFlight, s.Timeout = 1, 50*time.Millisecond
			if early {
				s.Lifecycle = messages.LifecycleEphemeral
			}
		})
		r.wantResult(r.do("x", "do", doArgs{}, long)) // its tools are known
		if early {
			r.f.eventually(t, "the next one is to be started", func() bool { return r.f.aliveNow() == 0 })
		}
		first := r.start("x", "do", doArgs{Do: "hold first"}, long)
		var others []*pendingCall
		for range 3 {
			others = append(others, r.start("x", "do", doArgs{Do: "hold other"}))
		}
		patient := r.start("x", "do", doArgs{}, long)
		if early {
			r.f.eventually(t, "all wait for the start", func() bool { return r.held("x") == 5 })
		}
		close(starts)
		for _, p := range others {
			e := r.wantCode(r.wait(p), messages.CodeExecutionTimeout)
			if !e.Retryable || !strings.Contains(e.Message, "was busy for all the time") || !strings.Contains(e.Message, "not sent") {
				t.Errorf("early %v: said %+v", early, e)
			}
		}
		r.f.eventually(t, "the child has the first", func() bool { return g.count("") == 1 })
		if first.answered() || patient.answered() {
			t.Errorf("early %v: one that may wait for longer was answered", early)
		}
		g.let()
		r.wantResult(r.wait(first))
		r.wantResult(r.wait(patient))
		r.close()
	}
}

// TestWaitTakesNothingOfTheTimeAtTheChild: a call that was about to give up has all its
// time once its turn comes. One that has to wait anew, at another connection, does so as
// long as any.
func TestWaitTakesNothingOfTheTimeAtTheChild(t *testing.T) {
	c := &connection{ready: true, spec: &messages.ServerSpec{Timeout: time.Minute}}
	own, bounded := &messages.Call{}, &messages.Call{Meta: messages.Meta{Deadline: time.Now().Add(time.Second)}}
	before := time.Now()
	for _, call := range []*messages.Call{own, bounded} {
		c.setUntil(call)
	}
	if !own.Deadline.IsZero() || waitsUntil(own).Before(before.Add(time.Minute)) {
		t.Errorf("it waits until %v, and its deadline is %v", waitsUntil(own), own.Deadline)
	}
	if !waitsUntil(bounded).Equal(bounded.Deadline) {
		t.Errorf("it waits until %v, beyond its deadline", waitsUntil(bounded))
	}
	first := waitsUntil(own)
	c.setUntil(own)
	if !waitsUntil(own).Equal(first) {
		t.Error("a call that was taken up and goes on to wait has new time for that")
	}
}
