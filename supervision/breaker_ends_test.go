package supervision_test

import (
	"testing"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// TestIdleOneThatDied gives its place up itself, so no other connection ends for it.
func TestIdleOneThatDied(t *testing.T) {
	s := newStage(t, func(p *supervision.PoolSettings) { p.Pool.Size, p.Pool.Reserve = 2, 0 })
	s.add("a", "b", "c")
	s.idle("a")
	s.idle("b")
	s.say("a", &messages.ConnectionFailed{Instance: 1, Started: true, Evidence: messages.Evidence{EOF: true}})
	if st := s.stats(); st.Evicting != 1 || st.Idle != 1 {
		t.Errorf("pool %+v, want one that ends and one that is idle", st)
	}
	s.call("c")
	s.say("a", &messages.Evict{Lease: 1, Reason: "test"}) // crossed its end
	if st := s.stats(); st.Evicting != 1 || st.Idle != 1 || st.Waiting != 1 {
		t.Errorf("pool %+v, want one that ends, one that is idle, and one who waits", st)
	}
	s.say("a", &messages.ConnectionClosed{Instance: 1})
	s.hears("c#1 Connect", 1)
	if s.count("b#1 Close") != 0 {
		t.Error("another one was ended")
	}
}

// TestIdleOneThatDiedIsStartedAgain: it had begun to list its tools anew. Its place is
// one like any other afterwards.
func TestIdleOneThatDiedIsStartedAgain(t *testing.T) {
	s := newStage(t, func(p *supervision.PoolSettings) { p.Pool.Size, p.Pool.Reserve = 1, 0 })
	s.add("a", "b")
	s.idle("a")
	s.say("a", &messages.ConnectionFailed{Instance: 1, Started: true, Evidence: messages.Evidence{EOF: true}})
	s.call("a")
	s.say("a", &messages.ConnectionEnded{Instance: 1})
	s.hears("a#1 Connect", 2)
	if st := s.stats(); st.Busy != 1 || st.Evicting != 0 {
		t.Errorf("pool %+v, want it busy", st)
	}
	s.say("a", &messages.ConnectionReady{Instance: 1})
	s.say("a", &messages.ConnectionIdle{Instance: 1, Handled: 1, Answered: 1})
	if st := s.stats(); st.Idle != 1 {
		t.Errorf("pool %+v, want it idle", st)
	}
	s.call("b")
	s.hears("a#1 Close", 1)
	s.say("a", &messages.Evict{Lease: 1, Reason: "test"})
	if st := s.stats(); st.Evicting != 1 {
		t.Errorf("pool %+v, want it to end", st)
	}
	s.say("a", &messages.ConnectionClosed{Instance: 1})
	s.hears("b#1 Connect", 1)
}
