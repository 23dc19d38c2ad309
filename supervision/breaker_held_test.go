package supervision_test

import (
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// heldWhileItOpens is a server whose breaker opens by the end of instance 2 while a
// call is held for the end of instance 1.
func (s *stage) heldWhileItOpens() answers {
	s.t.Helper()
	s.sys.Send(s.pool, &supervision.AddServers{Specs: []*messages.ServerSpec{{Name: "a", MaxInstances: 1, Scope: messages.ScopeSession}}})
	of := func(session uint64) func(*messages.Call) {
		return func(c *messages.Call) { c.Session = session }
	}
	s.call("a", of(1))
	s.hears("a#1 Connect", 1)
	s.say("a", &messages.ConnectionReady{Instance: 1})
	s.call("a", of(2))
	s.hears("a#2 Connect", 1)
	s.say("a", &messages.ConnectionReady{Instance: 2})
	lost := messages.Evidence{EOF: true}
	s.say("a", &messages.ConnectionFailed{Instance: 1, Started: true, Evidence: lost})
	_, port := s.call("a", of(1))
	if len(port) != 0 {
		s.t.Fatalf("the call is not held: %+v", <-port)
	}
	s.say("a", &messages.ConnectionFailed{Instance: 2, Started: true, Evidence: lost}) // the second in a row
	return port
}

// TestHeldWhileTheBreakerOpened: no child is started for a call that was held when the
// breaker opened.
func TestHeldWhileTheBreakerOpened(t *testing.T) {
	s := newStage(t, nil)
	port := s.heldWhileItOpens()
	if st := s.state("a"); st != "open" {
		t.Fatalf("it is %s", st)
	}
	s.say("a", &messages.ConnectionEnded{Instance: 1})
	s.hears("a#1 Close", 1)
	s.say("a", &messages.ConnectionClosed{Instance: 1})
	if a := take(s, port); a.Err == nil || a.Err.Code != messages.CodeCircuitOpen {
		t.Errorf("answer %+v", a)
	}
	if n := s.count("a#3 Connect"); n != 0 {
		t.Errorf("%d starts while it is open", n)
	}
}

// TestHeldUntilTheCooldownEnded: of what was held until then one call passes, and it is
// the probe.
func TestHeldUntilTheCooldownEnded(t *testing.T) {
	s := newStage(t, func(p *supervision.PoolSettings) { p.Cooldown = 50 * time.Millisecond })
	first := s.heldWhileItOpens()
	s.until("the cooldown ends", func() bool { return s.state("a") == "half-open" })
	probe, _ := s.call("a", func(c *messages.Call) { c.Session = 1 })
	s.say("a", &messages.ConnectionEnded{Instance: 1})
	s.hears("a#3 Call", 1)
	if a := take(s, first); a.Err == nil || a.Err.Code != messages.CodeCircuitOpen {
		t.Errorf("answer %+v", a)
	}
	if n := s.count("a#3 Call"); n != 1 {
		t.Errorf("%d calls passed", n)
	}
	s.say("a", &messages.ProbeOver{Call: probe.ID, Answered: true})
	if st := s.state("a"); st != "closed" {
		t.Errorf("it is %s after the probe was answered", st)
	}
}
