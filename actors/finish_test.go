package actors

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// listsSometimes is a child that answers the first so many tools/list and no other one.
func listsSometimes(answered int64) *script {
	var asked atomic.Int64
	return &script{answers: func(_ *fakeLink, m rpcLine) bool {
		return m.Method == methodToolsList && asked.Add(1) > answered
	}}
}

// TestNoEndWaitsForAListing that the child never answers: it is the host's own.
func TestNoEndWaitsForAListing(t *testing.T) {
	gone := func(r *rig) {
		r.f.eventually(r.t, "its child ends", func() bool { return r.f.aliveNow() == 0 })
	}
	for name, end := range map[string]func(r *rig){
		"the host ends": func(r *rig) { r.drained(r.e.Drain(time.Now().Add(time.Hour))) },
		"the server is removed": func(r *rig) {
			delete(r.specs, "a")
			r.apply(Change{Removed: []string{"a"}, Drain: time.Hour})
			gone(r)
		},
		"its configuration changes": func(r *rig) {
			r.change("a", func(s *messages.ServerSpec) { s.Hash, s.Disabled = "2", true })
			gone(r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.add("a", listsSometimes(0), nil)
			p := &contactPort{done: make(chan struct{})}
			r.e.Contact("a", false, p)
			r.got("a", methodToolsList, 1)
			end(r)
			r.heard(p)
			r.got("a", methodCancelled, 1)
			if s := r.status("a"); s.Failures != 0 || s.Breaker == "open" {
				t.Errorf("status %+v: that it had not listed its tools counts as a failure", s)
			}
		})
	}
}

// TestAnEndWaitsForTheCallsBesideAListing, and for nothing once they are over.
func TestAnEndWaitsForTheCallsBesideAListing(t *testing.T) {
	for name, over := range map[string]func(r *rig, p *pendingCall){
		"answered": func(r *rig, p *pendingCall) {
			links := r.f.living("a")
			links[0].answer([]byte(itoa(p.call.ID)), `{"content":[]}`)
			r.wantResult(r.wait(p))
		},
		"cancelled": func(r *rig, p *pendingCall) {
			r.e.Cancel(p.call, "enough")
			r.wantCode(r.wait(p), messages.CodeCancelled)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.add("a", listsSometimes(1), nil)
			r.ok("a")
			r.e.Contact("a", true, &contactPort{done: make(chan struct{})})
			r.got("a", methodToolsList, 2)
			p := r.start("a", "do", doArgs{Do: "silent"})
			r.got("a", methodToolsCall, 2)
			done := r.e.Drain(time.Now().Add(time.Hour))
			if r.stats(); p.answered() || r.f.aliveNow() != 1 {
				t.Error("the drain took a call in flight")
			}
			over(r, p)
			r.drained(done)
		})
	}
}

// TestAnEndWaitsForNoStartThatNobodyWaitsFor: whose call it was has given it up.
func TestAnEndWaitsForNoStartThatNobodyWaitsFor(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", &script{answers: func(l *fakeLink, _ rpcLine) bool { return l.n > 1 }}, nil)
	r.ok("a")
	r.update("a", func(s *messages.ServerSpec) { // not before: it would be idle between its listing and the call
		s.IdleTimeout, s.StartupTimeout = 20*time.Millisecond, time.Hour
	})
	r.f.eventually(t, "the first one ends", func() bool { return r.f.aliveNow() == 0 })
	p := r.start("a", "do", doArgs{})
	r.got("a", methodInitialize, 2)
	done := r.e.Drain(time.Now().Add(time.Hour))
	r.e.Cancel(p.call, "enough")
	r.wantCode(r.wait(p), messages.CodeCancelled)
	r.drained(done)
}
