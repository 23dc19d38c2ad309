package supervision_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// refuseStart plays a connection whose start the system refused.
func (s *stage) refuseStart(server string, instance uint64, calls ...*messages.Call) {
	var returned []messages.ReturnedCall
	for _, c := range calls {
		returned = append(returned, messages.ReturnedCall{Call: c})
	}
	s.say(server, &messages.ConnectionFailed{Instance: instance, Evidence: messages.Evidence{Err: syscall.EMFILE}, Returned: returned})
}

// TestIdleConnectionGivesWayWhereDescriptorsRunOut: the start is tried again
// once an idle connection is gone, and the call does not notice.
func TestIdleConnectionGivesWayWhereDescriptorsRunOut(t *testing.T) {
	for _, endedFirst := range []bool{true, false} {
		s := newStage(t, nil)
		s.add("a", "b")
		s.idle("a")
		call, port := s.call("b")
		s.hears("b#1 Connect", 1)
		s.refuseStart("b", 1, call)
		s.hears("a#1 Close", 1)
		if endedFirst {
			s.say("b", &messages.ConnectionEnded{Instance: 1})
		}
		if n := s.count("b#1 Connect"); n != 1 {
			t.Errorf("it is started %d times before there is room", n)
		}
		s.say("a", &messages.ConnectionClosed{Instance: 1})
		if !endedFirst {
			s.say("b", &messages.ConnectionEnded{Instance: 1})
		}
		s.hears("b#1 Connect", 2)
		s.hears("b#1 Call", 2)
		if len(port) != 0 {
			t.Errorf("the call was answered: %+v", <-port)
		}
	}
}

// TestAsManyGiveWayAsAreNeeded: one connection that ends may free too little.
func TestAsManyGiveWayAsAreNeeded(t *testing.T) {
	s := newStage(t, nil)
	idle := []string{"a", "c", "d"}
	s.add("b")
	s.add(idle...)
	for _, name := range idle {
		s.idle(name)
	}
	call, port := s.call("b")
	for i, name := range idle {
		s.hears("b#1 Connect", i+1)
		s.refuseStart("b", 1, call)
		s.hears(name+"#1 Close", 1)
		s.say("b", &messages.ConnectionEnded{Instance: 1})
		s.say(name, &messages.ConnectionClosed{Instance: 1})
	}
	s.hears("b#1 Connect", len(idle)+1)
	s.hears("b#1 Call", len(idle)+1)
	if len(port) != 0 {
		t.Errorf("the call was answered: %+v", <-port)
	}
}

// TestExhaustionIsNoFaultOfTheServer: callers hear of it, at once where nothing
// is idle (any more), and the circuit stays closed.
func TestExhaustionIsNoFaultOfTheServer(t *testing.T) {
	s := newStage(t, nil) // two failures would open the circuit
	s.add("a", "b")
	for n := uint64(1); n <= 4; n++ {
		call, port := s.call("b")
		contact := make(contacts, 1)
		s.say("b", &messages.Contact{ID: n, Reply: contact})
		s.refuseStart("b", n, call)
		if a := take(s, port); a.Err == nil || a.Err.Code == messages.CodeCircuitOpen {
			t.Errorf("call %d got %+v", n, a)
		}
		if err := take(s, contact); err == nil {
			t.Errorf("contact %d heard of no error", n)
		}
		s.say("b", &messages.ConnectionEnded{Instance: n})
		s.say("b", &messages.ConnectionClosed{Instance: n})
	}
	s.idle("a")
	call, port := s.call("b")
	s.refuseStart("b", 5, call)
	s.hears("a#1 Close", 1)
	s.say("b", &messages.ConnectionEnded{Instance: 5})
	s.say("a", &messages.ConnectionClosed{Instance: 1})
	s.hears("b#5 Connect", 2)
	s.refuseStart("b", 5, call)
	if a := take(s, port); a.Err == nil || a.Err.Code == messages.CodeCircuitOpen {
		t.Errorf("the call got %+v", a)
	}
	s.say("b", &messages.ConnectionEnded{Instance: 5})
	s.say("b", &messages.ConnectionClosed{Instance: 5})
	if st := s.stats(); st != (supervision.PoolStats{}) {
		t.Errorf("the pool holds %+v", st)
	}
	e, _ := s.dir.Lookup("b")
	if got := e.Status().Breaker; got != "closed" {
		t.Errorf("the circuit is %s", got)
	}
}

// TestASqueezedStartHasAnEnd: however often it is refused, a call waits for it no longer
// than it may be held.
func TestASqueezedStartHasAnEnd(t *testing.T) {
	const patience, first = 4500 * time.Millisecond, 3 * time.Second
	quickly(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.add("a", "b", "c")
		s.idle("a")
		s.idle("c")
		begun := time.Now()
		call, port := s.call("b", func(c *messages.Call) { c.Timeout = patience })
		s.hears("b#1 Connect", 1)
		s.refuseStart("b", 1, call)
		s.hears("a#1 Close", 1)
		s.say("b", &messages.ConnectionEnded{Instance: 1})
		<-time.After(first)
		s.say("a", &messages.ConnectionClosed{Instance: 1})
		s.hears("b#1 Call", 2)
		s.refuseStart("b", 1, call)
		s.hears("c#1 Close", 1)
		if a := take(s, port); a.Err == nil || a.Err.Code != messages.CodeExecutionTimeout {
			t.Errorf("answer %+v", a)
		}
		if took := time.Since(begun).Round(time.Second / 2); took != patience {
			t.Errorf("it was held for %s, want %s", took, patience)
		}
	})
}

// TestALateEndOfAWaitIsNoRoom: the wait for the first connection that gives way was over
// with its end, and says nothing of the second.
func TestALateEndOfAWaitIsNoRoom(t *testing.T) {
	quickly(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.add("a", "b", "c")
		s.idle("a")
		s.idle("c")
		begun := time.Now()
		call, _ := s.call("b", func(c *messages.Call) { c.Timeout = time.Minute })
		s.hears("b#1 Connect", 1)
		s.refuseStart("b", 1, call)
		s.hears("a#1 Close", 1)
		s.say("b", &messages.ConnectionEnded{Instance: 1})
		<-time.After(time.Second)
		s.say("a", &messages.ConnectionClosed{Instance: 1})
		s.hears("b#1 Connect", 2)
		s.refuseStart("b", 1, call)
		s.hears("c#1 Close", 1) // and ends slowly
		s.say("b", &messages.ConnectionEnded{Instance: 1})
		s.hears("b#1 Connect", 3)
		if waited := time.Since(begun).Round(time.Second / 2); waited != 6*time.Second {
			t.Errorf("it is tried again after %s, want 5s after it was refused the second time", waited)
		}
	})
}

// TestExhaustionIsOfOneInstance: where nothing is idle for one session's start, the call
// of another session goes on to wait for what gives way to it.
func TestExhaustionIsOfOneInstance(t *testing.T) {
	s := newStage(t, nil)
	s.add("a")
	s.scoped("b")
	s.idle("a")
	first, port := s.call("b", func(c *messages.Call) { c.Session = 1 })
	s.hears("b#1 Connect", 1)
	s.refuseStart("b", 1, first)
	s.hears("a#1 Close", 1)
	s.say("b", &messages.ConnectionEnded{Instance: 1})
	second, other := s.call("b", func(c *messages.Call) { c.Session = 2 })
	s.hears("b#2 Connect", 1)
	s.refuseStart("b", 2, second)
	s.say("b", &messages.ConnectionEnded{Instance: 2})
	if a := take(s, other); a.Err == nil {
		t.Errorf("answer %+v", a)
	}
	if len(port) != 0 {
		t.Errorf("the first session's call was answered: %+v", (<-port).Err)
	}
	s.say("a", &messages.ConnectionClosed{Instance: 1})
	s.hears("b#1 Connect", 2)
	s.hears("b#1 Call", 2)
}
