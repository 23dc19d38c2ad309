package supervision_test

import (
	"strconv"
	"strings"
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
	const again = "lost before, and started again"
	for name, grace := range map[string]time.Duration{"usual": supervision.DefaultStopGrace, "long": time.Minute, again: supervision.DefaultStopGrace} {
		t.Run(name, func(t *testing.T) {
			quickly(t, func(t *testing.T) {
				s := newStage(t, func(p *supervision.PoolSettings) {
					p.Pool.Size, p.Pool.Reserve, p.Pool.AcquireTimeout = 2, 0, time.Hour
				})
				s.sys.Send(s.pool, &supervision.AddServers{Specs: []*messages.ServerSpec{{Name: "a", MaxInstances: 1, StopGrace: grace}}})
				s.add("b", "c")
				s.idle("a")
				s.idle("b")
				if name == again {
					s.restarted("a")
					s.call("b")
					s.say("b", &messages.ConnectionIdle{Instance: 1, Handled: 1})
				}
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

// restarted brings a server's idle instance to where it was lost and is idle again.
func (s *stage) restarted(server string) {
	s.t.Helper()
	s.call(server)
	s.say(server, &messages.ConnectionFailed{Instance: 1, Started: true, Evidence: messages.Evidence{EOF: true}})
	s.call(server)
	s.say(server, &messages.ConnectionEnded{Instance: 1})
	s.hears(server+"#1 Connect", 2)
	s.say(server, &messages.ConnectionReady{Instance: 1})
	s.say(server, &messages.Cataloged{Server: server, Instance: 1})
	s.say(server, &messages.ConnectionIdle{Instance: 1, Handled: 2})
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

// TestTheGraceOfTheConfigurationCounts: that which the instance has, also where it was
// changed together with what makes the breaker replace it.
func TestTheGraceOfTheConfigurationCounts(t *testing.T) {
	for name, c := range map[string]struct {
		hash  string
		grace time.Duration // that counts
	}{
		"the same entry": {"", time.Minute},
		"another entry":  {"new", supervision.DefaultStopGrace},
	} {
		t.Run(name, func(t *testing.T) {
			quickly(t, func(t *testing.T) {
				s := newStage(t, nil)
				s.add("a")
				s.idle("a")
				s.call("a")
				s.gauges["a#1"].PID.Store(1)
				s.say("a", &messages.Respec{Restart: c.hash != "", Spec: &messages.ServerSpec{
					Name: "a", MaxInstances: 1, Retry: messages.RetrySafe, Scope: messages.ScopeSession, StopGrace: time.Minute, Hash: c.hash,
				}})
				s.say("a", &messages.ConnectionIdle{Instance: 1, Handled: 1})
				s.hears("a#1 Close", 1)
				<-time.After(c.grace)
				if s.count(doesNotEnd) != 0 {
					t.Error("the log was told before its time")
				}
				s.hears(doesNotEnd, 1)
			})
		})
	}
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

// stuck brings a server to where its instances 1 and 2 were lost and do not end.
func (s *stage) stuck(server string) {
	s.t.Helper()
	s.say(server, &messages.Contact{ID: 1, Reply: make(contacts, 1)})
	for n := uint64(1); n <= 2; n++ {
		name := server + "#" + strconv.FormatUint(n, 10)
		s.hears(name+" Connect", 1)
		s.say(server, &messages.ConnectionReady{Instance: n})
		s.say(server, &messages.FirstSuccess{Instance: n})
		s.say(server, &messages.ConnectionFailed{Instance: n, Started: true, Evidence: messages.Evidence{EOF: true}})
		_, port := s.call(server, func(c *messages.Call) { c.Timeout = time.Hour })
		s.hears(name+" Close", 1)
		if n == 2 {
			s.refusedAsStuck(take(s, port).Err)
		}
	}
}

func (s *stage) refusedAsStuck(err *messages.Error) {
	s.t.Helper()
	if err == nil || err.Code != messages.CodeConnection || !strings.Contains(err.Message, "do not end") {
		s.t.Errorf("refused with %+v", err)
	}
}

// TestLostOnesThatDoNotEndAreFew: a server whose processes hang does not take one place
// after the other.
func TestLostOnesThatDoNotEndAreFew(t *testing.T) {
	quickly(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.add("a")
		s.stuck("a")
		_, port := s.call("a")
		s.refusedAsStuck(take(s, port).Err)
		waiting := make(contacts, 1)
		s.say("a", &messages.Contact{ID: 2, Reply: waiting})
		s.refusedAsStuck(take(s, waiting))
		if st := s.stats(); st.Live != 2 || s.count("a#3 Connect") != 0 {
			t.Errorf("pool %+v, want two places taken", st)
		}
		s.say("a", &messages.ConnectionClosed{Instance: 1})
		s.call("a")
		s.hears("a#3 Connect", 1)
	})
}

// TestLostOnesOfAnOldConfigurationThatDoNotEnd do not stand in the way of the new one.
func TestLostOnesOfAnOldConfigurationThatDoNotEnd(t *testing.T) {
	quickly(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.add("a")
		s.stuck("a")
		s.respec("a")
		s.call("a")
		s.hears("a#3 Connect", 1)
	})
	quickly(t, func(t *testing.T) { // found out only when the new one is there
		s := newStage(t, nil)
		s.scaling()
		s.call("a")
		s.hears("a#2 Connect", 1)
		s.say("a", &messages.ConnectionReady{Instance: 2})
		for n := uint64(1); n <= 2; n++ {
			s.say("a", &messages.ConnectionIdle{Instance: n, Handled: 1})
			s.gauges["a#"+strconv.FormatUint(n, 10)].PID.Store(int64(n))
		}
		s.respec("a")
		s.hears("a#2 Close", 1)
		s.until("both are seen not to end", func() bool { return s.count(doesNotEnd) == 2 })
		s.call("a")
		s.hears("a#3 Connect", 1)
	})
}

// TestProbeOfAServerWhoseLostOnesDoNotEnd: it is refused, and so is not out for ever.
func TestProbeOfAServerWhoseLostOnesDoNotEnd(t *testing.T) {
	quickly(t, func(t *testing.T) {
		s := newStage(t, func(p *supervision.PoolSettings) { p.Cooldown = time.Second }) // opens at 2
		s.add("a")
		s.stuck("a")
		late, _ := s.call("a")
		s.say("a", &messages.RequestFailed{Instance: 2, Evidence: messages.Evidence{HTTPStatus: 503, Remote: true}, Call: late, Sent: time.Now()})
		if st := s.state("a"); st != "open" {
			t.Fatalf("it is %s", st)
		}
		s.until("the cooldown ends", func() bool { return s.state("a") == "half-open" })
		for range 2 {
			_, port := s.call("a")
			s.refusedAsStuck(take(s, port).Err)
			waiting := make(contacts, 1)
			s.say("a", &messages.Contact{ID: 2, Reply: waiting})
			s.refusedAsStuck(take(s, waiting))
		}
		s.say("a", &messages.ConnectionClosed{Instance: 2})
		s.call("a")
		s.hears("a#3 Call", 1)
	})
}

// TestNoOtherInstanceBesideOneThatDoesNotEnd: a call waits for the one that works.
func TestNoOtherInstanceBesideOneThatDoesNotEnd(t *testing.T) {
	for name, started := range map[string]bool{"lost": true, "did not start": false} {
		t.Run(name, func(t *testing.T) {
			quickly(t, func(t *testing.T) {
				s := newStage(t, nil)
				s.scaling()
				s.call("a")
				s.hears("a#2 Connect", 1)
				if started {
					s.say("a", &messages.ConnectionReady{Instance: 2})
				}
				s.say("a", &messages.ConnectionFailed{Instance: 2, Started: started, Evidence: messages.Evidence{EOF: true}})
				<-time.After(time.Minute)
				s.call("a")
				s.hears("a#1 Call", 2)
				s.say("a", &messages.ConnectionClosed{Instance: 2})
				s.call("a")
				s.hears("a#3 Connect", 1)
			})
		})
	}
}

// TestStartsThatWaitForTheirTurn and are not wanted any more have nothing that does not
// end, however long that takes.
func TestStartsThatWaitForTheirTurn(t *testing.T) {
	quickly(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.add("a")
		s.say("a", &messages.Contact{ID: 1, Reply: make(contacts, 1)})
		s.hears("a#1 Connect", 1)
		for n := 2; n <= 3; n++ {
			s.respec("a")
			s.hears("a#"+strconv.Itoa(n)+" Connect", 1)
		}
		<-time.After(time.Minute)
		s.say("a", &messages.ConnectionReady{Instance: 3})
		s.say("a", &messages.ConnectionFailed{Instance: 3, Started: true, Evidence: messages.Evidence{EOF: true}})
		s.say("a", &messages.ConnectionEnded{Instance: 3})
		s.say("a", &messages.ConnectionClosed{Instance: 3})
		s.call("a")
		s.hears("a#4 Connect", 1)
	})
}
