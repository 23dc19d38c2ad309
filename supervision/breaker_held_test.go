package supervision_test

import (
	"testing"
	"testing/synctest"
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

// quickly runs a test whose clock goes on as soon as everybody waits for it.
func quickly(t *testing.T, test func(t *testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { <-time.After(time.Minute) }) // protoactor watches its dead letters for a while
		test(t)
	})
}

// TestHeldCallsHaveAnEnd: a call whose client set no deadline is held as long as a child
// may work at it, or as the server's calls may take, and at least until the lost process
// must have ended.
func TestHeldCallsHaveAnEnd(t *testing.T) {
	const ladder = supervision.DefaultStopGrace + supervision.ReapWait
	for name, tt := range map[string]struct{ own, server, held time.Duration }{
		"its own time":          {5 * time.Second, time.Second, 5 * time.Second},
		"the server's":          {0, 5 * time.Second, 5 * time.Second},
		"its own is short":      {20 * time.Millisecond, time.Minute, ladder},
		"the server's is short": {0, 20 * time.Millisecond, ladder},
	} {
		t.Run(name, func(t *testing.T) {
			quickly(t, func(t *testing.T) {
				s := newStage(t, nil)
				s.sys.Send(s.pool, &supervision.AddServers{Specs: []*messages.ServerSpec{{Name: "a", MaxInstances: 1, Timeout: tt.server}}})
				s.idle("a")
				s.call("a")
				s.say("a", &messages.ConnectionFailed{Instance: 1, Started: true, Evidence: messages.Evidence{EOF: true}})
				begun := time.Now()
				_, port := s.call("a", func(c *messages.Call) { c.Timeout = tt.own })
				if a := take(s, port); a.Err == nil || a.Err.Code != messages.CodeExecutionTimeout {
					t.Errorf("answer %+v", a)
				}
				if took := time.Since(begun); took != tt.held {
					t.Errorf("it was held for %s, want %s", took, tt.held)
				}
			})
		})
	}
}

// TestACallThatIsHeldAnew: a child had it meanwhile, and its time is counted from the
// beginning.
func TestACallThatIsHeldAnew(t *testing.T) {
	quickly(t, func(t *testing.T) {
		const patience = 5 * time.Second
		s := newStage(t, func(p *supervision.PoolSettings) { p.FailureThreshold = 9 })
		s.add("a")
		s.idle("a")
		s.call("a")
		lose := func(calls ...messages.ReturnedCall) {
			s.say("a", &messages.ConnectionFailed{Instance: 1, Started: true, Evidence: messages.Evidence{EOF: true}, Returned: calls})
		}
		lose()
		call, port := s.call("a", func(c *messages.Call) { c.Idempotent, c.Timeout = true, patience })
		<-time.After(time.Second)
		s.say("a", &messages.ConnectionEnded{Instance: 1})
		s.hears("a#1 Call", 2)
		s.say("a", &messages.ConnectionReady{Instance: 1})
		<-time.After(patience - 2*time.Second)
		again := time.Now()
		lose(messages.ReturnedCall{Call: call, Written: true})
		if a := take(s, port); a.Err == nil || a.Err.Code != messages.CodeExecutionTimeout {
			t.Errorf("answer %+v", a)
		}
		if took := time.Since(again); took != patience {
			t.Errorf("it was held for %s, want %s", took, patience)
		}
	})
}

// TestALostServerThatDoesNotEnd: once it was killed in vain those who wait for its end
// get another. Its place stays taken, which the pool does not wait for.
func TestALostServerThatDoesNotEnd(t *testing.T) {
	quickly(t, func(t *testing.T) {
		s := newStage(t, func(p *supervision.PoolSettings) { p.Pool.Size, p.Pool.Reserve = 2, 0 })
		s.add("a", "b")
		s.idle("a")
		s.call("a")
		s.idle("b")
		s.say("a", &messages.ConnectionFailed{Instance: 1, Started: true, Evidence: messages.Evidence{EOF: true}})
		begun := time.Now()
		_, port := s.call("a", func(c *messages.Call) { c.Timeout = time.Hour })
		waiting := make(contacts, 1)
		s.say("a", &messages.Contact{ID: 2, Refresh: true, Reply: waiting})
		s.hears("b#1 Close", 1)
		if took := time.Since(begun); took < supervision.DefaultStopGrace+supervision.ReapWait+time.Second {
			t.Errorf("it was given up after %s", took)
		}
		s.say("b", &messages.ConnectionClosed{Instance: 1})
		s.hears("a#2 Call", 1)
		s.hears("a#2 Connect", 1)
		s.say("a", &messages.ConnectionReady{Instance: 2})
		s.say("a", &messages.Cataloged{Server: "a", Instance: 2})
		if err := take(s, waiting); err != nil {
			t.Error(err)
		}
		if st := s.stats(); st.Busy != 2 {
			t.Errorf("pool %+v, want both places taken", st)
		}
		s.say("a", &messages.ConnectionClosed{Instance: 1})
		if st := s.stats(); st.Busy != 1 || len(port) != 0 {
			t.Errorf("pool %+v, want one place free once it is gone; %d answers", st, len(port))
		}
	})
}

// TestALostServerThatIsStartedAgain is not given up for a loss before the last one.
func TestALostServerThatIsStartedAgain(t *testing.T) {
	quickly(t, func(t *testing.T) {
		s := newStage(t, func(p *supervision.PoolSettings) { p.FailureThreshold = 5 })
		s.add("a", "b")
		lose := func(server string) {
			s.say(server, &messages.ConnectionFailed{Instance: 1, Started: true, Evidence: messages.Evidence{EOF: true}})
			s.call(server, func(c *messages.Call) { c.Timeout = time.Hour })
		}
		for _, server := range []string{"a", "b"} {
			s.idle(server)
			s.call(server)
			lose(server)
		}
		<-time.After(supervision.DefaultStopGrace)
		s.say("a", &messages.ConnectionEnded{Instance: 1})
		s.hears("a#1 Connect", 2)
		s.say("a", &messages.ConnectionReady{Instance: 1})
		lose("a")
		s.hears("b#1 Close", 1) // which never ended
		<-time.After(time.Second)
		if n := s.count("a#1 Close"); n != 0 {
			t.Error("it was given up for its first loss")
		}
	})
}
