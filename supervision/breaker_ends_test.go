package supervision_test

import (
	"testing"
	"time"

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

// doesNotEnd is what the log is told of a process that outlives SIGKILL.
const doesNotEnd = "warning: a server does not end, though it was killed; its place stays taken until it does"

// TestAnEvictedOneThatDoesNotEnd: once it was killed in vain another one ends for who
// waits for its place.
func TestAnEvictedOneThatDoesNotEnd(t *testing.T) {
	for name, grace := range map[string]time.Duration{"usual": supervision.DefaultStopGrace, "long": time.Minute} {
		t.Run(name, func(t *testing.T) {
			quickly(t, func(t *testing.T) {
				s := newStage(t, func(p *supervision.PoolSettings) {
					p.Pool.Size, p.Pool.Reserve, p.Pool.AcquireTimeout = 2, 0, time.Hour
				})
				s.sys.Send(s.pool, &supervision.AddServers{Specs: []*messages.ServerSpec{{Name: "a", MaxInstances: 1, StopGrace: grace}}})
				s.add("b", "c")
				s.idle("a")
				s.idle("b")
				s.gauges["a#1"].PID.Store(1)
				_, port := s.call("c")
				s.hears("a#1 Close", 1)
				<-time.After(grace + supervision.ReapWait + time.Second)
				if s.count("b#1 Close") != 0 {
					t.Error("it was given up before its time")
				}
				s.hears("b#1 Close", 1)
				s.say("b", &messages.ConnectionClosed{Instance: 1})
				s.hears("c#1 Connect", 1)
				if st := s.stats(); st.Busy != 2 || st.Evicting != 0 || len(port) != 0 {
					t.Errorf("pool %+v, want both places taken; %d answers", st, len(port))
				}
				s.say("a", &messages.ConnectionClosed{Instance: 1})
				if st := s.stats(); st.Live != 1 {
					t.Errorf("pool %+v, want its place free once it is gone", st)
				}
				if n := s.count(doesNotEnd); n != 1 {
					t.Errorf("the log was told %d times", n)
				}
			})
		})
	}
}

// TestAnotherInstanceThatNeitherStartsNorEnds: nobody waits for its place for long.
func TestAnotherInstanceThatNeitherStartsNorEnds(t *testing.T) {
	quickly(t, func(t *testing.T) {
		s := newStage(t, func(p *supervision.PoolSettings) { p.Pool.Size, p.Pool.Reserve = 3, 0 })
		s.scaling()
		call, _ := s.call("a")
		s.hears("a#2 Connect", 1)
		s.add("b", "c")
		s.idle("b")
		s.say("a", &messages.ConnectionFailed{
			Instance: 2, Evidence: messages.Evidence{Timeout: true, Starting: true}, Returned: []messages.ReturnedCall{{Call: call}},
		})
		s.call("c")
		if s.count("b#1 Close") != 0 {
			t.Error("another one was ended at once")
		}
		s.hears("b#1 Close", 1)
		if n := s.count(doesNotEnd); n != 0 {
			t.Error("the log was told of a process that there is none of")
		}
	})
}

// TestAnEndInTime: the log is told of nothing.
func TestAnEndInTime(t *testing.T) {
	quickly(t, func(t *testing.T) {
		s := newStage(t, func(p *supervision.PoolSettings) { p.Pool.Size, p.Pool.Reserve = 1, 0 })
		s.add("a", "b")
		s.idle("a")
		s.gauges["a#1"].PID.Store(1)
		s.call("b")
		s.hears("a#1 Close", 1)
		<-time.After(supervision.DefaultStopGrace + supervision.ReapWait)
		s.say("a", &messages.ConnectionClosed{Instance: 1})
		s.hears("b#1 Connect", 1)
		<-time.After(time.Minute)
		if n := s.count(doesNotEnd); n != 0 {
			t.Errorf("the log was told %d times of one that ended", n)
		}
	})
}
