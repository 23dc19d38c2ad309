package actors

import (
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// standsStill has a call wait for the second start of a server, whose tools are known by
// then. That start does not come to its end.
func standsStill(r *rig) *pendingCall {
	r.t.Helper()
	r.add("a", &script{answers: func(l *fakeLink, _ rpcLine) bool { return l.n == 2 }}, nil)
	r.ended("a")
	r.update("a", func(s *messages.ServerSpec) { s.StartupTimeout = time.Hour })
	p := r.start("a", "do", doArgs{})
	r.got("a", methodInitialize, 2)
	return p
}

// ended calls a server and ends its child, so that the next call starts another one.
func (r *rig) ended(server string) {
	r.t.Helper()
	r.ok(server)
	r.update(server, func(s *messages.ServerSpec) { s.IdleTimeout = time.Millisecond })
	r.f.eventually(r.t, "its child ends", func() bool { return len(r.f.living(server)) == 0 })
	r.update(server, nil)
}

// TestACallDoesNotWaitForAnOldStart: what no child has yet goes to one of the new
// configuration.
func TestACallDoesNotWaitForAnOldStart(t *testing.T) {
	for name, change := range map[string]func(s *messages.ServerSpec){
		"another command": newHash,
		"another scope":   func(s *messages.ServerSpec) { s.Hash, s.Scope = "2", messages.ScopeSession },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			p := standsStill(r)
			r.change("a", change)
			r.wantResult(r.wait(p))
			r.f.eventually(t, "the old start ends", func() bool { return len(r.f.living("a")) == 1 })
			if n := r.f.started("a"); n != 3 {
				t.Errorf("%d starts, want 3", n)
			}
		})
	}
}

// TestARemovedServerIsNotStarted for the calls that wait for it.
func TestARemovedServerIsNotStarted(t *testing.T) {
	t.Run("waiting for a place", func(t *testing.T) {
		r := newRig(t, places(1))
		r.add("a", nil, nil)
		r.ended("a")
		r.add("b", nil, nil)
		holds := r.start("b", "do", doArgs{Do: "silent"})
		r.got("b", methodToolsCall, 1)
		p := r.start("a", "do", doArgs{})
		r.f.eventually(t, "it waits for a place", func() bool { return r.stats().Waiting == 1 })
		delete(r.specs, "a")
		r.apply(Change{Removed: []string{"a"}, Drain: time.Hour})
		r.wantCode(r.wait(p), messages.CodeServerNotFound)
		r.e.Cancel(holds.call, "enough")
		r.settled(1)
		if n := r.f.started("a"); n != 1 {
			t.Errorf("it was started %d times, want once, before its removal", n)
		}
	})
	t.Run("starting", func(t *testing.T) {
		r := newRig(t, nil)
		p := standsStill(r)
		delete(r.specs, "a")
		r.apply(Change{Removed: []string{"a"}, Drain: time.Hour})
		r.wantCode(r.wait(p), messages.CodeServerNotFound)
		r.f.eventually(t, "its child ends", func() bool { return r.f.aliveNow() == 0 })
	})
}

// TestFewerInstances: those that a server may have no longer end, and take their calls
// with them to the end.
func TestFewerInstances(t *testing.T) {
	most := func(n int) func(s *messages.ServerSpec) {
		return func(s *messages.ServerSpec) { s.MaxInstances, s.Lifecycle = n, messages.LifecycleKeepAlive }
	}
	r := newRig(t, nil)
	r.add("a", nil, most(3))
	r.ok("a")
	r.settled(1)
	var calls []*pendingCall
	for n := range 3 {
		calls = append(calls, r.start("a", "do", doArgs{Do: "silent"}))
		r.got("a", methodToolsCall, n+2)
	}
	if n := len(r.f.living("a")); n != 3 {
		t.Fatalf("%d instances, want 3", n)
	}
	r.update("a", most(1))
	r.stats()
	for _, p := range calls {
		if p.answered() {
			t.Error("the change took a call in flight")
		}
		r.e.Cancel(p.call, "enough")
		r.wantCode(r.wait(p), messages.CodeCancelled)
	}
	r.f.eventually(t, "one instance is left", func() bool { return len(r.f.living("a")) == 1 })
	r.ok("a")

	r.update("a", most(2))
	r.settled(1)
	calls = nil
	for n := range 2 {
		calls = append(calls, r.start("a", "do", doArgs{Do: "silent"}))
		r.got("a", methodToolsCall, n+6)
	}
	for _, p := range calls {
		r.e.Cancel(p.call, "enough")
	}
	r.settled(2)
	r.update("a", most(1))
	r.f.eventually(t, "an idle one ends", func() bool { return len(r.f.living("a")) == 1 })
	r.ok("a")
}
