package actors

import (
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

func watched(s *messages.ServerSpec) {
	s.Lifecycle, s.HealthEvery = messages.LifecycleKeepAlive, 5*time.Millisecond
}

// TestIdleInstanceIsPinged pings what is kept alive, as long as it answers.
func TestIdleInstanceIsPinged(t *testing.T) {
	r := newRig(t, nil)
	r.add("x", nil, watched)
	r.add("y", nil, func(s *messages.ServerSpec) { s.HealthEvery = time.Millisecond }) // not kept alive
	r.ok("x")
	r.ok("y")
	r.f.eventually(t, "several pings", func() bool { return len(r.f.lines("x", methodPing)) > 3 })
	r.ok("x")
	if r.f.started("x") != 1 {
		t.Error("it was started anew")
	}
	if len(r.f.lines("y", methodPing)) > 0 {
		t.Error("what is not kept alive is pinged")
	}
}

// TestIdleInstanceThatDoesNotAnswerIsEnded finds a child that hangs before a call does.
func TestIdleInstanceThatDoesNotAnswerIsEnded(t *testing.T) {
	r := newRig(t, nil)
	r.add("x", &script{silent: []string{methodPing}}, watched)
	r.ok("x")
	r.f.eventually(t, "it has ended", func() bool { return len(r.f.living("x")) == 0 })
	r.ok("x")
	if r.f.started("x") != 2 {
		t.Errorf("%d starts", r.f.started("x"))
	}
}

// TestAlarmOfAnAnsweredPing: one that was on its way when the ping was answered says
// nothing of the next.
func TestAlarmOfAnAnsweredPing(t *testing.T) {
	b := newBench(t, &script{silent: []string{methodPing}})
	b.send(&messages.Connect{})
	b.heard("ConnectionIdle", 1)
	for n := range 2 {
		b.send(&messages.Frame{Instance: 1, Method: "notifications/nothing"})
		c, p := b.call("silent")
		c.Timeout = time.Millisecond
		b.send(c)
		b.f.eventually(t, "the call times out", p.answered)
		b.f.eventually(t, "the child is pinged", func() bool { return len(b.f.lines("a", methodPing)) == n+1 })
	}
	if r := b.send(&pingDue{run: 1, n: 1}); r.After != "IDLE" {
		t.Errorf("the alarm of the first ping takes it to %s", r.After)
	}
	if r := b.send(&pingDue{run: 1, n: 2}); r.After != "CLOSED" {
		t.Errorf("the alarm of the second ping takes it to %s", r.After)
	}
}

// TestUnansweredPingsDoNotPileUp: a child that says other things lives, and leaves
// nothing behind of the pings that it never answers.
func TestUnansweredPingsDoNotPileUp(t *testing.T) {
	b := newBench(t, &script{silent: []string{methodPing}})
	b.send(&messages.Connect{})
	b.heard("ConnectionIdle", 1)
	for n := range 5 {
		c, p := b.call("silent")
		c.Timeout = time.Millisecond
		b.send(c)
		b.f.eventually(t, "the call times out", p.answered)
		b.f.eventually(t, "the child is pinged", func() bool { return len(b.f.lines("a", methodPing)) == n+1 })
		b.send(&messages.Frame{Instance: 1, Method: "notifications/nothing"})
		if left := len(b.c.internal); left > 1 {
			t.Fatalf("%d requests are open after %d pings", left, n+1)
		}
	}
}

// TestMemoryPressureEndsWhatIsIdle leaves alone what works.
func TestMemoryPressureEndsWhatIsIdle(t *testing.T) {
	r := newRig(t, nil)
	names := r.addMany(5)
	for i, n := range names[:4] {
		r.ok(n)
		r.settled(i + 1)
	}
	busy := r.start(names[4], "do", doArgs{Do: "silent"})
	r.f.eventually(t, "it works", func() bool { return len(r.f.lines(names[4], methodToolsCall)) == 1 })
	ended := make(chan int, 1)
	for want := 4; want > 0; want-- {
		r.e.Squeeze(func(n int) { ended <- n })
		if n := <-ended; n != 1 {
			t.Fatalf("%d ended", n)
		}
		r.f.eventually(t, "one less", func() bool { return len(r.f.living("")) == want })
	}
	if n := len(r.f.living(names[4])); n != 1 {
		t.Errorf("%d of the busy one live", n)
	}
	r.e.Cancel(busy.call, "enough")
	r.wantCode(r.wait(busy), messages.CodeCancelled)
}
