package supervision_test

import (
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// scaling adds a server that may have three instances, the first of which has a call.
func (s *stage) scaling() {
	s.t.Helper()
	s.sys.Send(s.pool, &supervision.AddServers{Specs: []*messages.ServerSpec{{Name: "a", MaxInstances: 3, Retry: messages.RetrySafe}}})
	s.idle("a")
	s.call("a")
	s.hears("a#1 Call", 1)
}

// TestAnotherInstanceThatDoesNotStart: its calls go to the one that works, and nothing
// is held against the server. The next try is later each time.
func TestAnotherInstanceThatDoesNotStart(t *testing.T) {
	for name, ev := range map[string]messages.Evidence{
		"it ends":         {Exit: &messages.Exit{Code: 1}, Starting: true},
		"it gets no room": {Err: syscall.EAGAIN, Starting: true},
	} {
		t.Run(name, func(t *testing.T) {
			quickly(t, func(t *testing.T) {
				s := newStage(t, nil) // which opens at 2
				s.add("b")
				s.idle("b")
				s.scaling()
				const last = 7
				for n := 2; n <= last; n++ {
					another := "a#" + strconv.Itoa(n)
					<-time.After(5 * time.Second)
					call, port := s.call("a")
					s.hears(another+" Connect", 1)
					s.say("a", &messages.ConnectionFailed{Instance: uint64(n), Evidence: ev, Returned: []messages.ReturnedCall{{Call: call}}})
					s.hears("a#1 Call", n)
					s.hears(another+" Close", 1)
					s.say("a", &messages.ConnectionClosed{Instance: uint64(n)})
					s.say("a", &messages.FirstSuccess{Instance: 1})
					if len(port) != 0 {
						t.Errorf("the call was answered: %+v", (<-port).Err)
					}
				}
				<-time.After(3 * time.Second)
				s.call("a")
				s.hears("a#1 Call", last+1)
				if n, st := s.failures("a"), s.state("a"); n != 0 || st != "closed" {
					t.Errorf("%d failures, %s", n, st)
				}
				if s.count("b#1 Close") != 0 {
					t.Error("an idle connection was ended for it")
				}
			})
		})
	}
}

// TestNoOtherInstanceDuringTheBackoff: a call does not wait for a start that is put off
// while an instance is there that can take it.
func TestNoOtherInstanceDuringTheBackoff(t *testing.T) {
	quickly(t, func(t *testing.T) {
		s := newStage(t, func(p *supervision.PoolSettings) { p.FailureThreshold = 5 })
		s.scaling()
		for n := 2; n < 4; n++ {
			s.call("a")
			s.hears("a#"+strconv.Itoa(n)+" Connect", 1)
			s.say("a", &messages.ConnectionReady{Instance: uint64(n)})
			s.say("a", &messages.ConnectionFailed{Instance: uint64(n), Started: true, Evidence: messages.Evidence{EOF: true}})
			s.say("a", &messages.ConnectionEnded{Instance: uint64(n)})
			s.say("a", &messages.ConnectionClosed{Instance: uint64(n)})
		}
		s.call("a")
		if n := s.count("a#1 Call"); n != 2 {
			t.Errorf("the one that is there has %d calls", n)
		}
	})
}

// TestAnIdleInstanceTakesTheCalls of one that waits for its place, and is not ended for
// that very place.
func TestAnIdleInstanceTakesTheCalls(t *testing.T) {
	s := newStage(t, func(p *supervision.PoolSettings) { p.Pool.Size, p.Pool.Reserve = 1, 0 })
	s.scaling()
	call, _ := s.call("a")
	s.hears("a#2 Call", 1)
	s.say("a", &messages.ConnectionIdle{Instance: 1, Handled: 1, Answered: 1})
	s.hears("a#2 Close", 1)
	s.say("a", &messages.CallReturned{Instance: 2, Call: call})
	s.say("a", &messages.ConnectionClosed{Instance: 2})
	s.hears("a#1 Call", 2)
	if st := s.stats(); st.Busy != 1 || st.Waiting != 0 || s.count("a#1 Close") != 0 {
		t.Errorf("pool %+v, want the one instance busy and nobody who waits", st)
	}
}

// TestAnIdleInstanceTakesTheCallsOfOneThatStarts, which goes on and is there for others.
func TestAnIdleInstanceTakesTheCallsOfOneThatStarts(t *testing.T) {
	quickly(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.scaling()
		s.load("a#1", 5)
		calls := make([]*messages.Call, 3)
		for i := range calls {
			calls[i], _ = s.call("a")
		}
		s.hears("a#2 Call", len(calls))
		s.load("a#2", len(calls))
		begun := time.Now()
		s.say("a", &messages.ConnectionIdle{Instance: 1, Handled: 1, Answered: 1})
		s.hears("a#2 ReturnCalls", 1)
		if took := time.Since(begun); took > time.Second {
			t.Errorf("they waited %s", took)
		}
		s.load("a#1", 0)
		s.load("a#2", 0)
		for i, call := range calls {
			s.say("a", &messages.CallReturned{Instance: 2, Call: call})
			s.hears("a#1 Call", 2+i)
			s.load("a#1", 1+i)
		}
		s.say("a", &messages.ConnectionIdle{Instance: 1, Handled: 4, Answered: 4})
		s.say("a", &messages.ConnectionReady{Instance: 2})
		if n := s.count("a#2 ReturnCalls"); n != 1 || s.count("a#2 Close")+s.count("a#3 Connect") != 0 {
			t.Errorf("its calls are asked for %d times, it is ended, or another one is started: %v", n, s.heard)
		}
	})
}

// TestAnotherInstanceOfTheConfigurationBefore is ended when its calls do not wait for it
// any more: no other call would get there.
func TestAnotherInstanceOfTheConfigurationBefore(t *testing.T) {
	quickly(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.scaling()
		call, _ := s.call("a")
		s.hears("a#2 Connect", 1)
		s.load("a#2", 1)
		s.say("a", &messages.Respec{Restart: true, Spec: &messages.ServerSpec{Name: "a", MaxInstances: 3}})
		s.call("a")
		s.hears("a#3 Connect", 1)
		s.say("a", &messages.ConnectionReady{Instance: 3})
		s.hears("a#2 Close", 1)
		s.say("a", &messages.CallReturned{Instance: 2, Call: call})
		s.hears("a#3 Call", 2)
	})
}

// TestNoPlaceForAnotherInstance: its calls do not wait for one as long as those of a
// server do that has no instance at all.
func TestNoPlaceForAnotherInstance(t *testing.T) {
	quickly(t, func(t *testing.T) {
		s := newStage(t, func(p *supervision.PoolSettings) { p.Pool.Size, p.Pool.Reserve = 1, 0 })
		s.scaling()
		s.add("b")
		_, other := s.call("b")
		begun := time.Now()
		call, port := s.call("a")
		s.hears("a#2 Close", 1)
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("it waited %s", took)
		}
		s.say("a", &messages.CallReturned{Instance: 2, Call: call})
		s.say("a", &messages.ConnectionClosed{Instance: 2})
		s.hears("a#1 Call", 2)
		if st := s.stats(); st.Waiting != 1 || len(port)+len(other) != 0 {
			t.Errorf("pool %+v, want b to wait; %d and %d answers", st, len(port), len(other))
		}
	})
}

// load has an instance say how many calls it has.
func (s *stage) load(instance string, calls int) {
	s.gauges[instance].Load.Store(int64(calls))
}

// TestABurstIsSpread over the instances that are started for it, none of which is slow.
func TestABurstIsSpread(t *testing.T) {
	quickly(t, func(t *testing.T) {
		const instances, burst = 4, 100
		s := newStage(t, nil)
		s.sys.Send(s.pool, &supervision.AddServers{Specs: []*messages.ServerSpec{{Name: "a", MaxInstances: instances}}})
		s.idle("a")
		for range burst {
			s.call("a")
			for in := range s.gauges {
				s.load(in, s.count(in+" Call"))
			}
		}
		for n := 1; n <= instances; n++ {
			in := "a#" + strconv.Itoa(n)
			if got := s.count(in + " Call"); got != burst/instances {
				t.Errorf("%s has %d of %d calls", in, got, burst)
			}
		}
	})
}

// TestABusyServerStartsOneMore, and not one for each call that comes until that is ready.
func TestABusyServerStartsOneMore(t *testing.T) {
	quickly(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.sys.Send(s.pool, &supervision.AddServers{Specs: []*messages.ServerSpec{{Name: "a", MaxInstances: 10}}})
		s.idle("a")
		const busy = 5
		s.call("a")
		s.load("a#1", busy)
		for n := 1; n < busy; n++ {
			s.call("a")
			s.hears("a#2 Call", n)
			s.load("a#2", n)
		}
		if s.count("a#3 Call") != 0 {
			t.Error("another one is started")
		}
	})
}

// TestAnotherInstanceThatStartsSlowly: calls that may go elsewhere do not wait for it for
// long. They then go to one that is connected, and not to yet another, and so do those that
// come later.
func TestAnotherInstanceThatStartsSlowly(t *testing.T) {
	quickly(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.scaling()
		s.load("a#1", 5)
		begun := time.Now()
		call, port := s.call("a")
		s.hears("a#2 Connect", 1)
		s.hears("a#2 ReturnCalls", 1)
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("it waited %s", took)
		}
		s.say("a", &messages.CallReturned{Instance: 2, Call: call})
		s.hears("a#1 Call", 2)
		<-time.After(3 * time.Second)
		s.call("a")
		s.hears("a#3 Call", 1)
		s.load("a#3", 5)
		for n := 3; n < 6; n++ {
			s.call("a")
			s.hears("a#1 Call", n) // and none to the second, which has nothing to do
		}
		s.say("a", &messages.ConnectionReady{Instance: 2})
		s.call("a")
		s.hears("a#2 Call", 2) // it has the least to do
		if n := s.count("a#2 Close") + s.count("a#3 ReturnCalls") + len(port); n != 0 {
			t.Errorf("it is ended, or calls were given back or answered: %v", s.heard)
		}
	})
}

// TestCallsThatComeBack from an additional instance wait for no other one that is started.
func TestCallsThatComeBack(t *testing.T) {
	quickly(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.scaling()
		s.load("a#1", 5)
		call, _ := s.call("a")
		s.hears("a#2 Connect", 1)
		s.load("a#2", 6)
		<-time.After(time.Second)
		s.call("a")
		s.hears("a#3 Connect", 1)
		s.hears("a#2 ReturnCalls", 1)
		s.say("a", &messages.CallReturned{Instance: 2, Call: call})
		s.hears("a#1 Call", 2)
	})
}

// TestAnInstanceThatHasGivenItsCallBack was given nothing, once it is ready: it is not busy,
// and an ephemeral one waits for its first call.
func TestAnInstanceThatHasGivenItsCallBack(t *testing.T) {
	quickly(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.sys.Send(s.pool, &supervision.AddServers{Specs: []*messages.ServerSpec{{Name: "a", MaxInstances: 3, Lifecycle: messages.LifecycleEphemeral}}})
		s.idle("a")
		s.call("a")
		s.load("a#1", 5)
		call, _ := s.call("a")
		s.hears("a#2 ReturnCalls", 1)
		s.say("a", &messages.CallReturned{Instance: 2, Call: call})
		s.hears("a#1 Call", 2)
		<-time.After(3 * time.Second)
		s.say("a", &messages.ConnectionReady{Instance: 2})
		s.say("a", &messages.ConnectionIdle{Instance: 2, Handled: 1})
		s.say("a", &messages.Cataloged{Server: "a", Instance: 2})
		if s.count("a#2 Close") != 0 {
			t.Fatal("it is ended")
		}
		s.say("a", &messages.Contact{ID: 2, Refresh: true, Reply: make(contacts, 1)})
		s.hears("a#2 Relist", 1)
		s.call("a")
		s.hears("a#2 Call", 2)
		if s.count("a#3 Call") != 0 {
			t.Error("it passes for busy")
		}
		s.say("a", &messages.Cataloged{Server: "a", Instance: 2})
		s.say("a", &messages.ConnectionIdle{Instance: 2, Handled: 2, Answered: 1})
		s.hears("a#2 Close", 1)
	})
}

// TestSlowStartWithoutAnother: calls wait for the start where nobody else is connected.
func TestSlowStartWithoutAnother(t *testing.T) {
	quickly(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.scaling()
		s.call("a")
		s.hears("a#2 Connect", 1)
		s.say("a", &messages.ConnectionFailed{Instance: 1, Started: true, Evidence: messages.Evidence{EOF: true}})
		<-time.After(5 * time.Second)
		if s.count("a#2 ReturnCalls") != 0 {
			t.Error("its calls were asked for, though nobody can take them")
		}
	})
}

// TestContactBesideAnotherInstance: the tools are asked of the instance that is there.
func TestContactBesideAnotherInstance(t *testing.T) {
	s := newStage(t, nil)
	s.scaling()
	s.call("a")
	s.hears("a#2 Connect", 1)
	s.say("a", &messages.Contact{ID: 2, Refresh: true, Reply: make(contacts, 1)})
	s.hears("a#1 Relist", 1)
}

// TestAnotherInstanceOfANewConfiguration: that those of the old one did not start does
// not put it off.
func TestAnotherInstanceOfANewConfiguration(t *testing.T) {
	quickly(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.scaling()
		call, _ := s.call("a")
		s.hears("a#2 Connect", 1)
		s.say("a", &messages.ConnectionFailed{
			Instance: 2, Evidence: messages.Evidence{Exit: &messages.Exit{Code: 1}, Starting: true}, Returned: []messages.ReturnedCall{{Call: call}},
		})
		s.say("a", &messages.ConnectionClosed{Instance: 2})
		s.say("a", &messages.Respec{Restart: true, Spec: &messages.ServerSpec{Name: "a", MaxInstances: 3}})
		s.call("a")
		s.hears("a#3 Connect", 1)
		s.say("a", &messages.ConnectionReady{Instance: 3})
		s.call("a")
		s.hears("a#4 Connect", 1)
	})
}

// TestProbeOfAnotherInstanceThatIsGivenUp: it is the probe still when it comes back, and
// no call that comes meanwhile takes its turn.
func TestProbeOfAnotherInstanceThatIsGivenUp(t *testing.T) {
	for name, giveUp := range map[string]func(*stage){
		"for one that is idle":  func(s *stage) { s.say("a", &messages.ConnectionIdle{Instance: 1, Handled: 1}) },
		"since it has no place": func(*stage) {},
	} {
		t.Run(name, func(t *testing.T) {
			quickly(t, func(t *testing.T) {
				s := newStage(t, func(p *supervision.PoolSettings) {
					p.Pool.Size, p.Pool.Reserve, p.FailureThreshold, p.Cooldown = 1, 0, 1, time.Second
				})
				s.sys.Send(s.pool, &supervision.AddServers{Specs: []*messages.ServerSpec{{Name: "a", MaxInstances: 2}}})
				s.idle("a")
				failed, _ := s.call("a")
				s.say("a", &messages.RequestFailed{Instance: 1, Evidence: messages.Evidence{HTTPStatus: 503, Remote: true}, Call: failed, Sent: time.Now()})
				s.until("the cooldown ends", func() bool { return s.state("a") == "half-open" })
				probe, port := s.call("a")
				s.hears("a#2 Call", 1)
				giveUp(s)
				s.hears("a#2 Close", 1)
				_, next := s.call("a")
				if a := take(s, next); a.Err == nil || a.Err.Code != messages.CodeCircuitOpen {
					t.Errorf("the call beside the probe: %+v", a)
				}
				s.say("a", &messages.CallReturned{Instance: 2, Call: probe})
				s.say("a", &messages.ConnectionClosed{Instance: 2})
				s.hears("a#1 Call", 2)
				s.say("a", &messages.ProbeOver{Call: probe.ID, Answered: true})
				if st := s.state("a"); st != "closed" || len(port) != 0 {
					t.Errorf("it is %s after the probe was answered", st)
				}
			})
		})
	}
}
