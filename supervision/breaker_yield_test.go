package supervision_test

import (
	"testing"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// contacted has a server started for its tools alone.
func (s *stage) contacted(server string, change ...func(*messages.Contact)) contacts {
	s.t.Helper()
	port := make(contacts, 1)
	m := &messages.Contact{ID: 1, Reply: port}
	for _, f := range change {
		f(m)
	}
	s.say(server, m)
	s.hears(server+"#1 Connect", 1)
	return port
}

// TestACallHasThePlaceOfAContact, however far that has come. The server is no worse for it.
func TestACallHasThePlaceOfAContact(t *testing.T) {
	for name, far := range map[string]func(s *stage) contacts{
		"starting": func(s *stage) contacts { return s.contacted("a") },
		"listing": func(s *stage) contacts {
			port := s.contacted("a")
			s.say("a", &messages.ConnectionReady{Instance: 1})
			return port
		},
		"listing anew": func(s *stage) contacts {
			s.idle("a")
			port := make(contacts, 1)
			s.say("a", &messages.Contact{ID: 2, Refresh: true, Reply: port})
			s.hears("a#1 Relist", 1)
			return port
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, func(p *supervision.PoolSettings) { p.Pool.Size, p.Pool.Reserve, p.FailureThreshold = 1, 0, 1 })
			s.add("a", "b")
			port := far(s)
			_, answered := s.call("b")
			s.hears("a#1 Close", 1)
			if err := take(s, port); err == nil || err.Code != messages.CodePoolSaturated || !err.Retryable {
				t.Errorf("who asked for the tools heard %+v", err)
			}
			s.say("a", &messages.ConnectionClosed{Instance: 1})
			s.hears("b#1 Connect", 1)
			e, _ := s.dir.Lookup("a")
			if st := e.Status(); st.Failures != 0 || st.Breaker != "closed" || st.LastError != nil || !st.RetryAt.IsZero() {
				t.Errorf("status %+v", st)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, h := range s.heard {
				if h != "a#1 Connect" && h != "a#1 Relist" && h != "a#1 Close" && h != "b#1 Call" && h != "b#1 Connect" {
					t.Errorf("heard %q", h)
				}
			}
			if len(answered) != 0 {
				t.Error("the call was answered without a child")
			}
		})
	}
}

// TestAContactThatACallJoins keeps its place, also where it was about to give it up.
func TestAContactThatACallJoins(t *testing.T) {
	contact := func(s *stage) { s.contacted("a") }
	call := func(s *stage) { s.call("a") }
	callsTools := func(s *stage) {
		s.say("a", &messages.Contact{ID: 2, ForCall: true, Reply: make(contacts, 1)})
	}
	for name, begin := range map[string][]func(s *stage){
		"a call":                 {contact, call},
		"one without the tools":  {contact, callsTools},
		"a contact after a call": {call, contact},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, func(p *supervision.PoolSettings) { p.Pool.Size, p.Pool.Reserve = 2, 0 })
			s.add("a", "b", "c")
			for _, f := range begin {
				f(s)
			}
			s.contacted("b")
			s.say("a", &messages.Evict{Lease: 1, Reason: "test"})
			s.call("c")
			s.hears("b#1 Close", 1)
			if st := s.stats(); st.Busy != 1 || st.Evicting != 1 || st.Waiting != 1 {
				t.Errorf("pool %+v, want one that a call has, one that ends and one who waits", st)
			}
			if s.count("a#1 Close") != 0 {
				t.Error("the one that a call wants was ended")
			}
		})
	}
}

// TestAnInstanceThatListsTakesTheCall: no other one is started, for whose place it would
// have to end.
func TestAnInstanceThatListsTakesTheCall(t *testing.T) {
	for name, begin := range map[string]func(s *stage) (lists string){
		"it alone": func(s *stage) string {
			s.say("a", &messages.ConnectionIdle{Instance: 1, Handled: 1, Answered: 1})
			return "a#1"
		},
		"beside an older one": func(s *stage) string {
			s.load("a#1", 1)
			s.call("a")
			s.hears("a#2 Connect", 1)
			s.say("a", &messages.ConnectionReady{Instance: 2})
			s.say("a", &messages.Cataloged{Server: "a", Instance: 2})
			s.say("a", &messages.ConnectionIdle{Instance: 2, Handled: 1, Answered: 1})
			return "a#2"
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, func(p *supervision.PoolSettings) { p.Pool.Size, p.Pool.Reserve = 2, 0 })
			s.scaling()
			in := begin(s)
			s.say("a", &messages.Contact{ID: 2, Refresh: true, Reply: make(contacts, 1)})
			s.hears(in+" Relist", 1)
			s.load("a#1", 0) // its call is answered, or given to it just now
			if in == "a#1" {
				s.add("b")
				s.call("b")
				s.hears("b#1 Connect", 1)
			}
			s.call("a")
			s.hears(in+" Call", 2)
			if st := s.stats(); st.Busy != 2 || st.Waiting != 0 || s.count(in+" Close") != 0 {
				t.Errorf("pool %+v, want the two busy and nobody who waits", st)
			}
		})
	}
}

// TestAContactThatHasFailedGivesItsPlaceUp: no other one ends for a call meanwhile.
func TestAContactThatHasFailedGivesItsPlaceUp(t *testing.T) {
	for name, beside := range map[string]func(s *stage){
		"beside another contact":  func(s *stage) { s.contacted("b") },
		"beside one that is idle": func(s *stage) { s.idle("b") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, func(p *supervision.PoolSettings) { p.Pool.Size, p.Pool.Reserve = 2, 0 })
			s.add("a", "b", "c")
			s.contacted("a")
			beside(s)
			s.say("a", &messages.ConnectionFailed{Instance: 1, Evidence: messages.Evidence{Timeout: true}})
			s.call("c")
			if st := s.stats(); st.Evicting != 1 || st.Waiting != 1 {
				t.Errorf("pool %+v, want one that ends and the call to wait for that", st)
			}
			s.say("a", &messages.ConnectionEnded{Instance: 1})
			s.hears("a#1 Close", 1)
			s.say("a", &messages.ConnectionClosed{Instance: 1})
			s.hears("c#1 Connect", 1)
			if s.count("b#1 Close") != 0 {
				t.Error("another one was ended")
			}
		})
	}
}

// TestAContactThatIsStartedAgain after it has failed gives its place to a call as it did
// before, unless a call waits for it by then.
func TestAContactThatIsStartedAgain(t *testing.T) {
	anew := func(s *stage) contacts {
		s.contacted("a")
		s.say("a", &messages.ConnectionFailed{Instance: 1, Evidence: messages.Evidence{Timeout: true}})
		port := make(contacts, 1)
		s.say("a", &messages.Contact{ID: 2, Reply: port})
		return port
	}
	// The system has no room for it, so that it waits for the end of an idle one.
	squeezed := func(s *stage) contacts {
		s.add("idle", "d")
		s.idle("idle")
		port := s.contacted("a")
		s.refuseStart("a", 1)
		s.hears("idle#1 Close", 1)
		s.call("d") // which has the place of that
		return port
	}
	for name, tc := range map[string]struct {
		size   int
		fails  func(s *stage) contacts
		called bool
	}{
		"":                    {1, anew, false},
		"for a call":          {1, anew, true},
		"squeezed":            {2, squeezed, false},
		"squeezed for a call": {2, squeezed, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, func(p *supervision.PoolSettings) { p.Pool.Size, p.Pool.Reserve = tc.size, 0 })
			s.add("a", "b")
			port := tc.fails(s)
			if tc.called {
				s.call("a")
			}
			if tc.size == 1 {
				s.say("a", &messages.ConnectionEnded{Instance: 1})
				s.hears("a#1 Connect", 2)
			}
			s.call("b")
			before := s.stats().Waiting
			if tc.called {
				if s.count("a#1 Close") != 0 || len(port) != 0 {
					t.Error("the one that a call waits for was ended")
				}
				return
			}
			if err := take(s, port); err == nil || err.Code != messages.CodePoolSaturated {
				t.Errorf("who asked for the tools heard %+v", err)
			}
			s.hears("a#1 Close", 1)
			s.say("a", &messages.ConnectionClosed{Instance: 1})
			s.until("a call has its place", func() bool { return s.stats().Waiting == before-1 })
		})
	}
}
