package supervision_test

import (
	"sync"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// TestNobodyWaitsForTheStart: an instance that has no place yet goes once its last call
// has been given up, also while its start is put off, and whoever wants the server's
// tools keeps it.
func TestNobodyWaitsForTheStart(t *testing.T) {
	gaveUp := func(handled uint64) *messages.ConnectionIdle {
		return &messages.ConnectionIdle{Instance: 1, Handled: handled}
	}
	full := func(t *testing.T) *stage {
		s := newStage(t, func(p *supervision.PoolSettings) { p.Pool.Size, p.Pool.Reserve = 1, 0 })
		s.add("a", "b")
		s.idle("b")
		s.call("b")
		return s
	}
	t.Run("for a place", func(t *testing.T) {
		s := full(t)
		s.call("a")
		s.call("a")
		s.say("a", gaveUp(1)) // sent before the other call came
		if st := s.stats(); st.Waiting != 1 || s.count("a#1 Close") != 0 {
			t.Errorf("pool %+v, want it to wait for the other call", st)
		}
		s.say("a", gaveUp(2))
		s.hears("a#1 Close", 1)
		if st := s.stats(); st.Waiting != 0 {
			t.Errorf("pool %+v, want nobody to wait", st)
		}
		// The pool granted the place before it heard of that.
		s.say("a", &messages.Granted{Ticket: 2, Lease: 1})
		if st := s.stats(); st.Live != 0 || s.count("a#1 Connect") != 0 {
			t.Errorf("pool %+v, want the place given back", st)
		}
		s.say("a", &messages.ConnectionClosed{Instance: 1})
		s.call("a")
		s.hears("a#2 Connect", 1)
	})
	t.Run("for the tools", func(t *testing.T) {
		s := full(t)
		s.say("a", &messages.Contact{ID: 1, Reply: make(contacts, 1)})
		s.call("a")
		s.say("a", gaveUp(1))
		if st := s.stats(); st.Waiting != 1 || s.count("a#1 Close") != 0 {
			t.Errorf("pool %+v, want it to wait for who asked for the tools", st)
		}
	})
	t.Run("but the tools are listed anew where it is there", func(t *testing.T) {
		s := full(t)
		port := make(contacts, 1)
		s.call("a")
		s.say("a", &messages.Contact{ID: 1, Refresh: true, Background: true, Reply: port})
		s.say("a", gaveUp(1))
		s.hears("a#1 Close", 1)
		if err := take(s, port); err == nil || err.Code != messages.CodeCancelled {
			t.Errorf("the contact heard %+v", err)
		}
		s.say("a", &messages.ConnectionClosed{Instance: 1})
		if st := s.stats(); st.Waiting != 0 || s.count("a#2 Connect") != 0 {
			t.Errorf("pool %+v, want nobody to wait", st)
		}
	})
	t.Run("that is put off", func(t *testing.T) {
		quickly(t, func(t *testing.T) {
			s := newStage(t, func(p *supervision.PoolSettings) { p.FailureThreshold = 5 })
			s.add("a")
			s.failsTwice("a")
			s.call("a")
			s.hears("a#3 Call", 1)
			s.say("a", &messages.ConnectionIdle{Instance: 3, Handled: 1})
			s.hears("a#3 Close", 1)
			<-time.After(time.Minute)
			if st := s.stats(); st != (supervision.PoolStats{}) || s.count("a#3 Connect") != 0 {
				t.Errorf("pool %+v, want nothing started", st)
			}
		})
	})
	t.Run("that broke", func(t *testing.T) {
		s := full(t)
		s.call("a")
		s.sys.Send(s.conns["a#1"], "break")
		s.until("nobody waits", func() bool { return s.stats().Waiting == 0 })
	})
}

// TestAPlaceForARemovedServer: one that is granted while the last instance ends, which
// waited for it, goes to whoever waits next.
func TestAPlaceForARemovedServer(t *testing.T) {
	s := newStage(t, func(p *supervision.PoolSettings) { p.Pool.Size, p.Pool.Reserve = 1, 0 })
	s.add("a", "b", "c")
	s.idle("b")
	var running sync.WaitGroup
	breaker := s.breaker("a")
	s.call("b")
	closing, closed := make(chan struct{}), make(chan struct{})
	s.say("a", &messages.Contact{ID: 1, ForCall: true, Reply: looking(func(*messages.Error) { close(closing); <-closed })})
	s.call("c")
	if st := s.stats(); st.Waiting != 2 {
		t.Fatalf("pool %+v, want two who wait", st)
	}

	// The pool is busy while b's place comes free and a is removed, and a's breaker while
	// the pool gives it the place.
	begun, over := make(chan struct{}), make(chan struct{})
	running.Go(func() {
		s.sys.Send(s.pool, &supervision.Squeeze{Evicted: func(int) { close(begun); <-over }})
	})
	take(s, begun)
	s.say("b", &messages.ConnectionClosed{Instance: 1})
	running.Go(func() { s.sys.Send(breaker, &messages.Retire{}) })
	take(s, closing)
	s.sys.Send(breaker, &messages.ConnectionClosed{Instance: 1})
	close(over)
	if st := s.stats(); st.Waiting != 1 {
		t.Errorf("pool %+v, want the place granted to the one that ends", st)
	}
	close(closed)
	running.Wait()
	s.hears("c#1 Connect", 1)
}
