package supervision_test

import (
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

func (s *stage) failures(server string) int {
	s.t.Helper()
	e, ok := s.dir.Lookup(server)
	if !ok {
		s.t.Fatalf("no server %s", server)
	}
	return e.Status().Failures
}

// respec changes the configuration so that what runs is of an old one.
func (s *stage) respec(server string) {
	s.say(server, &messages.Respec{Restart: true, Spec: &messages.ServerSpec{Name: server, MaxInstances: 1, Retry: messages.RetrySafe}})
}

// TestOldStartFails: a start of the old configuration that fails says nothing of
// the new one, and those who wait for that hear nothing of it.
func TestOldStartFails(t *testing.T) {
	s := newStage(t, func(p *supervision.PoolSettings) { p.FailureThreshold = 1 })
	s.add("a")
	first, second := make(contacts, 1), make(contacts, 1)
	s.say("a", &messages.Contact{ID: 1, Reply: first})
	s.hears("a#1 Connect", 1)
	s.respec("a")
	s.hears("a#1 Close", 1) // nobody has a call on it
	s.hears("a#2 Connect", 1)
	s.say("a", &messages.Contact{ID: 2, Reply: second})
	call, port := s.call("a")
	s.hears("a#2 Call", 1)
	s.say("a", &messages.ConnectionFailed{ // crossed the Close
		Instance: 1, Evidence: messages.Evidence{Timeout: true, Starting: true}, Returned: []messages.ReturnedCall{{Call: call}},
	})
	s.hears("a#2 Call", 2)
	if len(first)+len(second)+len(port) != 0 {
		t.Error("who waits for the new one was told of the old one's end")
	}
	if n, st := s.failures("a"), s.state("a"); n != 0 || st != "closed" {
		t.Errorf("%d failures, %s", n, st)
	}
	s.say("a", &messages.ConnectionReady{Instance: 2})
	s.say("a", &messages.Cataloged{Server: "a", Instance: 2})
	for _, c := range []contacts{first, second} {
		if err := take(s, c); err != nil {
			t.Error(err)
		}
	}
}

// TestOldChildSaysNothingOfTheNew: neither what an old child cannot do nor that it
// works counts for the new configuration.
func TestOldChildSaysNothingOfTheNew(t *testing.T) {
	s := newStage(t, nil)
	s.add("a")
	s.idle("a")
	s.call("a")
	old, port := s.call("a")
	s.respec("a")
	broken := messages.Evidence{HTTPStatus: 503, Remote: true}
	s.say("a", &messages.RequestFailed{Instance: 1, Evidence: broken, Call: old, Sent: time.Now()})
	if take(s, port).Err == nil {
		t.Error("the call was not answered with its failure")
	}
	if n := s.failures("a"); n != 0 {
		t.Errorf("%d failures of the new one", n)
	}
	s.call("a")
	s.hears("a#2 Connect", 1)
	s.say("a", &messages.ConnectionFailed{Instance: 2, Evidence: messages.Evidence{Exit: &messages.Exit{Code: 3}}})
	if n := s.failures("a"); n != 1 {
		t.Errorf("%d failures of the new one, want its own", n)
	}
	s.say("a", &messages.FirstSuccess{Instance: 1})
	s.say("a", &messages.ConnectionIdle{Instance: 1, Handled: 2, Answered: 1})
	if n := s.failures("a"); n != 1 {
		t.Errorf("%d failures of the new one after the old one's answer, want 1", n)
	}
}

// TestOneOfSeveralStartsFails: who waits for the tools waits for another instance
// where there is one.
func TestOneOfSeveralStartsFails(t *testing.T) {
	s := newStage(t, nil)
	s.sys.Send(s.pool, &supervision.AddServers{Specs: []*messages.ServerSpec{{Name: "a", MaxInstances: 1, Scope: messages.ScopeSession}}})
	of := func(session uint64) func(*messages.Call) {
		return func(c *messages.Call) { c.Session = session }
	}
	s.call("a", of(1))
	s.hears("a#1 Connect", 1)
	s.call("a", of(2))
	s.hears("a#2 Connect", 1)
	port := make(contacts, 1)
	s.say("a", &messages.Contact{Meta: messages.Meta{Session: 2}, ID: 1, Reply: port})
	s.say("a", &messages.ConnectionFailed{Instance: 1, Evidence: messages.Evidence{Exit: &messages.Exit{Code: 3}}})
	if len(port) != 0 {
		t.Fatalf("it was told of the other's end: %v", <-port)
	}
	s.say("a", &messages.ConnectionReady{Instance: 2})
	s.say("a", &messages.Cataloged{Server: "a", Instance: 2})
	if err := take(s, port); err != nil {
		t.Error(err)
	}
	s.say("a", &messages.ConnectionEnded{Instance: 1})
	s.hears("a#1 Close", 1)
	s.say("a", &messages.ConnectionClosed{Instance: 1})

	// One that has its tools lists them anew.
	s.say("a", &messages.ConnectionIdle{Instance: 2, Handled: 1, Answered: 1})
	s.call("a", of(3))
	s.hears("a#3 Connect", 1)
	s.say("a", &messages.Contact{ID: 2, Refresh: true, Reply: port})
	s.say("a", &messages.ConnectionFailed{Instance: 3, Evidence: messages.Evidence{Exit: &messages.Exit{Code: 3}}})
	s.hears("a#2 Relist", 1)
	s.say("a", &messages.Cataloged{Server: "a", Instance: 2})
	if err := take(s, port); err != nil {
		t.Error(err)
	}
}

// TestWhoWaitsForAListingOfOneThatEnds gets another's, without waiting for that end.
func TestWhoWaitsForAListingOfOneThatEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		end  any
		want string
	}{
		"its session is over": {&messages.SessionOver{Session: 1}, "a#2 Relist"},
		"the scope changes":   {&messages.Respec{Spec: &messages.ServerSpec{Name: "a", MaxInstances: 1}}, "a#3 Connect"},
	} {
		t.Run(name, func(t *testing.T) {
			quickly(t, func(t *testing.T) {
				s := newStage(t, nil)
				s.idlePair("a")
				port := make(contacts, 1)
				s.say("a", &messages.Contact{ID: 1, Refresh: true, Reply: port})
				s.hears("a#1 Relist", 1)
				begun := time.Now()
				s.say("a", tc.end)
				s.hears(tc.want, 1)
				if took := time.Since(begun); took > time.Second {
					t.Errorf("it took %s", took)
				}
				if e, _ := s.dir.Lookup("a"); e.Runs(&messages.Toolset{Server: "a", Instance: 1}) {
					t.Error("what the one lists that ends still counts")
				}
				if len(port) != 0 {
					t.Errorf("it was told of the end: %v", <-port)
				}
			})
		})
	}
}
