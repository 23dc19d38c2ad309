package supervision_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// of makes a call one of a client's.
func of(session uint64) func(*messages.Call) {
	return func(c *messages.Call) { c.Session = session }
}

// onePlace is a pool whose only place a server "busy" has.
func onePlace(t *testing.T, servers ...string) *stage {
	t.Helper()
	s := newStage(t, func(p *supervision.PoolSettings) {
		p.Pool.Size, p.Pool.Reserve, p.Pool.AcquireTimeout, p.FailureThreshold = 1, 0, 30*time.Second, 9
	})
	s.add("busy")
	s.add(servers...)
	s.idle("busy")
	s.call("busy")
	return s
}

// over has an instance give the place away that it has.
func (s *stage) over(server string, instance uint64) {
	s.t.Helper()
	s.hears(server+"#"+strconv.FormatUint(instance, 10)+" Connect", 1)
	s.say(server, &messages.ConnectionClosed{Instance: instance})
}

// TestAServerIsInTheTurnOfEachClient that waits for it, however many others one of them
// asked for before.
func TestAServerIsInTheTurnOfEachClient(t *testing.T) {
	for name, ask := range map[string]func(s *stage){
		"who calls it": func(s *stage) { s.call("c", of(2)) },
		"who asks for its tools to call one": func(s *stage) {
			s.say("c", &messages.Contact{Meta: messages.Meta{Session: 2}, ID: 1, ForCall: true, Reply: make(contacts, 1)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := onePlace(t, "a", "b", "c")
			for _, server := range []string{"a", "b", "c"} {
				s.call(server, of(1))
			}
			ask(s)
			s.over("busy", 1)
			s.over("a", 1)
			s.hears("c#1 Connect", 1)
			if n := s.count("b#1 Connect"); n != 0 {
				t.Error("the first client has two turns before the second has one")
			}
			if st := s.stats(); st.Waiting != 1 {
				t.Errorf("pool %+v, want one place waited for", st)
			}
		})
	}
}

// TestAStartThatWasPutOffIsInTheTurnOfEachClient that called meanwhile.
func TestAStartThatWasPutOffIsInTheTurnOfEachClient(t *testing.T) {
	quickly(t, func(t *testing.T) {
		s := newStage(t, func(p *supervision.PoolSettings) { p.Pool.Size, p.Pool.Reserve, p.FailureThreshold = 1, 0, 9 })
		s.add("a", "b", "c", "busy")
		s.failsTwice("a", of(3))
		s.idle("busy")
		s.call("busy")
		s.call("b", of(1))
		s.call("c", of(1))
		s.call("a", of(1))
		s.call("a", of(2))
		s.until("the start is due", func() bool { return s.stats().Waiting == 3 })
		s.over("busy", 1)
		s.over("b", 1)
		s.hears("a#3 Connect", 1)
		if n := s.count("c#1 Connect"); n != 0 {
			t.Error("the first client has two turns before the second has one")
		}
	})
}

// TestAStartThatWasPutOffIsTheCalls that came meanwhile, though it is made for a contact:
// where nobody else may wait for a place, another contact makes room.
func TestAStartThatWasPutOffIsTheCalls(t *testing.T) {
	quickly(t, func(t *testing.T) {
		s := newStage(t, func(p *supervision.PoolSettings) {
			p.Pool.Size, p.Pool.Reserve, p.Pool.MaxWaiters, p.FailureThreshold = 1, 0, 1, 9
		})
		s.add("a", "b", "busy")
		s.failsTwice("a")
		s.idle("busy")
		s.call("busy")
		own, other := make(contacts, 1), make(contacts, 1)
		s.say("b", &messages.Contact{ID: 1, Reply: other})
		s.say("a", &messages.Contact{ID: 2, Reply: own})
		_, answer := s.call("a")
		for _, port := range []contacts{other, own} {
			if err := take(s, port); err == nil || err.Code != messages.CodePoolSaturated {
				t.Errorf("a contact heard %+v", err)
			}
		}
		s.over("busy", 1)
		s.hears("a#3 Connect", 1)
		if len(answer) != 0 || s.count("a#3 Close") != 0 {
			t.Errorf("the call is answered or given up: %v", s.heard)
		}
	})
}

// TestEachWaitsForItsOwnTime, and not for what is left of another's.
func TestEachWaitsForItsOwnTime(t *testing.T) {
	const patience, later = 30 * time.Second, 29 * time.Second
	quickly(t, func(t *testing.T) {
		s := onePlace(t, "a", "b")
		first, second := make(contacts, 1), make(contacts, 1)
		contact := func(client uint64, port contacts) {
			s.say("b", &messages.Contact{Meta: messages.Meta{Session: client}, ID: client, Reply: port})
		}
		s.call("a", of(1))
		contact(1, first)
		begun := time.Now()
		at := func(what string, want time.Duration) {
			t.Helper()
			if took := time.Since(begun); took != want {
				t.Errorf("%s after %s, want %s", what, took, want)
			}
		}
		<-time.After(later)
		s.call("a", of(2))
		contact(2, second)
		if err := take(s, first); err == nil || err.Code != messages.CodePoolSaturated {
			t.Errorf("the first heard %+v", err)
		}
		at("the first was told", patience)
		s.hears("a#1 TurnAway", 1)
		at("the first was turned away", patience)
		if st := s.stats(); st.Waiting != 2 || s.count("a#1 Close")+s.count("b#1 Close") != 0 {
			t.Errorf("pool %+v, want both places waited for", st)
		}
		<-time.After(later - time.Second)
		if err := take(s, second); err == nil || err.Code != messages.CodePoolSaturated {
			t.Errorf("the second heard %+v", err)
		}
		at("the second was told", later+patience)
		s.hears("a#1 Close", 1)
		at("nothing is left to wait for", later+patience)
	})
}

// TestTheFirstCallIsTurnedAwayInTime, however long it took until the pool had heard of it
// and the call was given to its instance.
func TestTheFirstCallIsTurnedAwayInTime(t *testing.T) {
	quickly(t, func(t *testing.T) {
		s := newStage(t, func(p *supervision.PoolSettings) {
			p.Pool.Size, p.Pool.Reserve, p.Pool.AcquireTimeout = 1, 0, 30*time.Second
		})
		turned := make(chan *messages.TurnAway, 4)
		s.closing = func() { <-time.After(time.Millisecond) }
		s.turned = func(m *messages.TurnAway) { turned <- m }
		s.add("idle", "a")
		s.idle("idle")
		first, _ := s.call("a", of(1)) // the other server is closed meanwhile
		s.hears("a#1 Call", 1)
		<-time.After(time.Second)
		s.call("a", of(2))
		if m := <-turned; m.Client != 1 || first.Since.After(m.Before) {
			t.Errorf("client %d is turned away with what came before %s, and the call came at %s", m.Client, m.Before, first.Since)
		}
	})
}

// TestAnotherInstanceWhoseCallIsTurnedAway: those that are there take the calls.
func TestAnotherInstanceWhoseCallIsTurnedAway(t *testing.T) {
	s := newStage(t, func(p *supervision.PoolSettings) { p.Pool.Size, p.Pool.Reserve = 1, 0 })
	s.scaling()
	s.call("a", of(1))
	s.hears("a#2 Call", 1)
	s.say("a", &messages.TurnAway{Ticket: 2, Client: 1, Before: time.Now()})
	s.hears("a#2 Close", 1)
	if n := s.count("a#2 TurnAway"); n != 0 {
		t.Error("its calls were refused")
	}
}

// scoped adds a server that has an instance for each client.
func (s *stage) scoped(name string) {
	s.sys.Send(s.pool, &supervision.AddServers{Specs: []*messages.ServerSpec{{Name: name, MaxInstances: 1, Scope: messages.ScopeSession}}})
}

// idlePair is two instances of a scoped server, of sessions 1 and 2, that have nothing to do.
func (s *stage) idlePair(name string) {
	s.t.Helper()
	s.scoped(name)
	for n := uint64(1); n <= 2; n++ {
		s.call(name, of(n))
		s.hears(name+"#"+strconv.FormatUint(n, 10)+" Connect", 1)
		s.say(name, &messages.ConnectionReady{Instance: n})
		s.say(name, &messages.Cataloged{Server: name, Instance: n})
		s.say(name, &messages.ConnectionIdle{Instance: n, Handled: 1, Answered: 1})
	}
}

// failsTwice has a server fail at two starts for calls, so that the next one is put off.
func (s *stage) failsTwice(name string, change ...func(*messages.Call)) {
	s.t.Helper()
	for n := uint64(1); n <= 2; n++ {
		s.call(name, change...)
		s.hears(name+"#"+strconv.FormatUint(n, 10)+" Connect", 1)
		s.say(name, &messages.ConnectionFailed{Instance: n, Evidence: messages.Evidence{EOF: true}})
		s.say(name, &messages.ConnectionEnded{Instance: n})
		s.say(name, &messages.ConnectionClosed{Instance: n})
	}
}

// TestWhoWantsTheToolsOfAServerThatIsThere gives no other instance of it a turn.
func TestWhoWantsTheToolsOfAServerThatIsThere(t *testing.T) {
	s := newStage(t, func(p *supervision.PoolSettings) { p.Pool.Size, p.Pool.Reserve = 2, 0 })
	s.scoped("a")
	s.add("busy", "b", "c")
	s.call("a", of(1))
	s.hears("a#1 Connect", 1)
	s.say("a", &messages.ConnectionReady{Instance: 1})
	s.say("a", &messages.Cataloged{Server: "a", Instance: 1})
	s.idle("busy")
	s.call("busy")
	for _, server := range []string{"b", "c", "a"} {
		s.call(server, of(2))
	}
	s.say("a", &messages.Contact{Meta: messages.Meta{Session: 3}, ID: 1, Refresh: true, Reply: make(contacts, 1)})
	s.hears("a#1 Relist", 1)
	s.over("busy", 1)
	s.over("b", 1)
	s.hears("c#1 Connect", 1)
	if s.count("a#2 Connect") != 0 {
		t.Error("it is in the turn of who needs it not")
	}
}

// TestWhoWantsTheToolsWaitsOn where no place is found for another client's instance.
func TestWhoWantsTheToolsWaitsOn(t *testing.T) {
	s := onePlace(t)
	s.scoped("a")
	port := make(contacts, 1)
	s.say("a", &messages.Contact{Meta: messages.Meta{Session: 1}, ID: 1, Reply: port})
	s.call("a", of(2))
	refused := &messages.Error{Code: messages.CodePoolSaturated}
	s.say("a", &messages.ReserveRefused{Ticket: 3, Err: refused})
	s.hears("a#2 Close", 1)
	s.say("a", &messages.ConnectionClosed{Instance: 2})
	if len(port) != 0 {
		t.Fatalf("it was told of that: %+v", <-port)
	}
	s.say("a", &messages.ReserveRefused{Ticket: 2, Err: refused})
	if err := take(s, port); err == nil || err.Code != messages.CodePoolSaturated {
		t.Errorf("it heard %+v", err)
	}
}
