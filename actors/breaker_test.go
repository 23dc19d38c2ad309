package actors

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// breaks is a pool whose breakers open after two failures.
func breaks(cooldown time.Duration) func(*supervision.PoolSettings) {
	return func(s *supervision.PoolSettings) { s.FailureThreshold, s.Cooldown = 2, cooldown }
}

// startsUnless lets the starts of a server fail while fails is set.
func startsUnless(fails *atomic.Bool, err error) *script {
	return &script{launch: func(int) error {
		if fails.Load() {
			return err
		}
		return nil
	}}
}

var errRefused = fmt.Errorf("dial: %w", syscall.ECONNREFUSED)

func TestBreakerOpensAndRefuses(t *testing.T) {
	r := newRig(t, breaks(time.Hour))
	var fails atomic.Bool
	fails.Store(true)
	r.add("a", startsUnless(&fails, errRefused), nil)
	for range 2 {
		if err := r.wantCode(r.do("a", "do", doArgs{}), messages.CodeConnection); err.Class != messages.ClassOffline {
			t.Errorf("class %q, want offline", err.Class)
		}
	}
	starts := r.f.started("a")
	err := r.wantCode(r.do("a", "do", doArgs{}), messages.CodeCircuitOpen)
	if err.Class != messages.ClassOffline || err.RetryAfter <= 0 || !err.Retryable {
		t.Errorf("refusal %+v", err)
	}
	if !strings.Contains(err.Hint, "60 min") || !strings.Contains(err.Hint, "Do not call") {
		t.Errorf("the refusal does not say when to try again: %q", err.Hint)
	}
	if r.f.started("a") != starts {
		t.Error("a refused call started a child")
	}
	if s := r.status("a"); s.Breaker != "open" || s.RetryAt.IsZero() || s.State != messages.StateFailed {
		t.Errorf("status %+v", s)
	}
}

func TestHalfOpenAdmitsOneProbe(t *testing.T) {
	r := newRig(t, breaks(50*time.Millisecond))
	var fails atomic.Bool
	r.add("a", startsUnless(&fails, errRefused), nil)
	r.ok("a") // its tools are known, so that calls reach the breaker at once
	fails.Store(true)
	r.trip("a")
	fails.Store(false)
	r.f.eventually(t, "the cooldown ends", func() bool { return r.halfOpen("a") })
	probe := r.start("a", "do", doArgs{Do: "silent"})
	r.wantCode(r.do("a", "do", doArgs{}), messages.CodeCircuitOpen)
	r.got("a", methodToolsCall, 2)
	r.wantCode(r.do("a", "do", doArgs{}), messages.CodeCircuitOpen)
	// A probe that is given up tells nothing and makes room for the next.
	r.e.Cancel(probe.call, "enough")
	r.wantCode(r.wait(probe), messages.CodeCancelled)
	r.ok("a")
	r.f.eventually(t, "the breaker is closed", func() bool { return r.status("a").Breaker == "closed" })
	r.ok("a")
	entry, _ := r.e.Directory().Lookup("a")
	if c := entry.Counts(); c.Opened != 1 || c.HalfOpened != 1 || c.Closed != 1 {
		t.Errorf("counts are %+v; want one opening, one probe and one closing", c)
	}
}

// TestOneInstanceAnswersWhileOthersAreLost: what kills an instance now and then is no row
// of failures while another one answers, however long that has been busy.
func TestOneInstanceAnswersWhileOthersAreLost(t *testing.T) {
	r := newRig(t, func(s *supervision.PoolSettings) { s.FailureThreshold, s.Cooldown = 3, time.Hour })
	r.add("a", nil, func(s *messages.ServerSpec) { s.MaxInstances = 2 })
	r.ok("a")
	busy := r.start("a", "do", doArgs{Do: "silent"})
	r.got("a", methodToolsCall, 2)
	dies := func() {
		t.Helper()
		if a := r.do("a", "do", doArgs{Do: "die"}); a.Err == nil || a.Err.Class != messages.ClassStdioExit {
			t.Fatalf("%+v", a)
		}
	}
	for range 2 {
		dies() // another one, since the first is busy
		r.f.eventually(t, "it is gone", func() bool { return r.status("a").Instances == 1 })
	}
	r.ok("a") // of the first one, since the next start is put off
	dies()    // which is that one, too
	r.wantCode(r.wait(busy), messages.CodeToolExecution)
	if st := r.status("a"); st.Breaker != "closed" {
		t.Errorf("status %+v", st)
	}
}

// trip makes the server fail until its breaker is open.
func (r *rig) trip(server string) {
	r.t.Helper()
	for _, l := range r.f.living(server) {
		l.crash()
	}
	r.f.eventually(r.t, "the children of "+server+" are gone", func() bool { return len(r.f.living(server)) == 0 })
	for r.status(server).Breaker == "closed" {
		a := r.do(server, "do", doArgs{})
		if a.Err == nil {
			r.t.Fatalf("%s works", server)
		}
	}
}

func (r *rig) halfOpen(server string) bool {
	return r.trace.count("breaker", "→ open") > 0 && r.status(server).Breaker == "half-open"
}

func TestProbeWithoutAPlaceDoesNotLockTheBreaker(t *testing.T) {
	r := newRig(t, func(s *supervision.PoolSettings) {
		breaks(50 * time.Millisecond)(s)
		s.Pool.Size, s.Pool.AcquireTimeout = 1, 60*time.Millisecond
	})
	var fails atomic.Bool
	r.add("a", startsUnless(&fails, errRefused), nil)
	r.add("b", nil, nil)
	r.ok("a")
	fails.Store(true)
	r.trip("a")
	fails.Store(false)
	busy := r.start("b", "do", doArgs{Do: "silent"})
	r.got("b", methodToolsCall, 1)
	r.f.eventually(t, "the cooldown ends", func() bool { return r.halfOpen("a") })
	r.wantCode(r.do("a", "do", doArgs{}), messages.CodePoolSaturated)
	r.e.Cancel(busy.call, "enough")
	r.wantCode(r.wait(busy), messages.CodeCancelled)
	r.f.eventually(t, "another probe passes", func() bool { return r.do("a", "do", doArgs{}).Err == nil })
}

// TestProbeBesideALongCall: the instance that gets it is not idle when it is over, and
// the next call passes all the same.
func TestProbeBesideALongCall(t *testing.T) {
	var full atomic.Bool
	for name, probe := range map[string]func(r *rig){
		"answered": func(r *rig) { r.ok("a") },
		"refused":  func(r *rig) { r.do("a", "do", doArgs{Do: "rpcerror"}) },
		"timed out": func(r *rig) {
			r.wantCode(r.do("a", "do", doArgs{Do: "silent"}, within(20*time.Millisecond)), messages.CodeExecutionTimeout)
		},
		"not taken": func(r *rig) {
			full.Store(true)
			r.wantCode(r.do("a", "do", doArgs{}), messages.CodePoolSaturated)
			full.Store(false)
		},
		"given back": func(r *rig) {
			holds := atomic.Bool{}
			holds.Store(true)
			back := make(takenBack, 1)
			p := r.start("a", "do", doArgs{}, func(c *messages.Call) { c.Held = &holding{&holds, back} })
			call := <-back
			r.ok("a")
			holds.Store(false)
			r.e.Call(call)
			r.wantResult(r.wait(p))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, breaks(50*time.Millisecond))
			sc := &script{backlog: func(line []byte) bool { return full.Load() && strings.Contains(string(line), methodToolsCall) }}
			r.add("a", sc, func(s *messages.ServerSpec) { s.URL = "http://a" })
			r.ok("a")
			long := r.start("a", "do", doArgs{Do: "silent"})
			for r.status("a").Breaker == "closed" {
				r.wantCode(r.do("a", "do", doArgs{Do: "trouble"}), messages.CodeToolExecution)
			}
			r.f.eventually(t, "the cooldown ends", func() bool { return r.halfOpen("a") })
			probe(r)
			r.ok("a")
			r.ok("a")
			if s := r.status("a"); s.Breaker != "closed" {
				t.Errorf("status %+v", s)
			}
			r.e.Cancel(long.call, "enough")
			r.wantCode(r.wait(long), messages.CodeCancelled)
			r.settled(1)
		})
	}
}

// holding is a caller who wants its calls back for a while.
type holding struct {
	holds *atomic.Bool
	back  takenBack
}

type takenBack chan *messages.Call

// Holds implements messages.HeldPort.
func (h *holding) Holds() bool { return h.holds.Load() }

// TakeBack implements messages.HeldPort.
func (h *holding) TakeBack(call *messages.Call) { h.back <- call }

func TestWhatNeverOpensTheBreaker(t *testing.T) {
	t.Run("auth", func(t *testing.T) {
		r := newRig(t, func(s *supervision.PoolSettings) {
			breaks(time.Hour)(s)
			s.Flaps, s.FlapWindow = 2, time.Hour
		})
		r.add("a", &script{launch: func(int) error { return errors.New("401 Unauthorized: token expired") }}, nil)
		for range 2 { // a third would wait for the backoff
			if err := r.wantCode(r.do("a", "do", doArgs{}), messages.CodeConnection); err.Class != messages.ClassAuth {
				t.Errorf("class %q, want auth", err.Class)
			}
		}
		if s := r.status("a"); s.Breaker != "closed" || s.LastError == nil {
			t.Errorf("status %+v", s)
		}
	})
	for _, do := range []string{"iserror", "rpcerror"} {
		t.Run(do, func(t *testing.T) {
			r := newRig(t, breaks(time.Hour))
			r.add("a", nil, nil)
			for range 5 {
				if a := r.do("a", "do", doArgs{Do: do}); a.Err != nil {
					t.Fatalf("%v", a.Err)
				}
			}
			r.ok("a")
		})
	}
	t.Run("cancel and timeout", func(t *testing.T) {
		r := newRig(t, breaks(time.Hour))
		r.add("a", nil, nil)
		for range 3 {
			p := r.start("a", "do", doArgs{Do: "silent"})
			r.e.Cancel(p.call, "enough")
			r.wantCode(r.wait(p), messages.CodeCancelled)
			r.wantCode(r.do("a", "do", doArgs{Do: "silent"}, within(20*time.Millisecond)), messages.CodeExecutionTimeout)
		}
		if s := r.status("a"); s.Breaker != "closed" {
			t.Errorf("status %+v", s)
		}
		r.ok("a")
	})
}

// TestMendedServerIsNotShownAsFailed: what its starts failed of is over once it works.
func TestMendedServerIsNotShownAsFailed(t *testing.T) {
	for cause, why := range map[string]error{"auth": errors.New("401 Unauthorized: token expired"), "offline": errRefused} {
		for used, use := range map[string]func(r *rig){
			"called": func(r *rig) { r.ok("a") },
			"listed": func(r *rig) {
				p := &contactPort{done: make(chan struct{})}
				r.e.Contact("a", false, p)
				r.heard(p)
			},
		} {
			t.Run(cause+", then "+used, func(t *testing.T) {
				r := newRig(t, nil)
				var fails atomic.Bool
				fails.Store(true)
				r.add("a", startsUnless(&fails, why), func(s *messages.ServerSpec) { s.IdleTimeout = 20 * time.Millisecond })
				r.wantCode(r.do("a", "do", doArgs{}), messages.CodeConnection)
				if s := r.status("a"); s.State != messages.StateFailed || s.LastError == nil {
					t.Errorf("before it is mended: status %+v", s)
				}
				fails.Store(false)
				use(r)
				r.f.eventually(t, "its idle child ends", func() bool { return r.status("a").Instances == 0 })
				if s := r.status("a"); s.State != messages.StateIdle || s.LastError != nil {
					t.Errorf("status %+v", s)
				}
			})
		}
	}
}

func TestCrashLoopBacksOff(t *testing.T) {
	r := newRig(t, func(s *supervision.PoolSettings) { s.FailureThreshold = 100 })
	r.add("a", &script{exits: true}, nil)
	for range 2 {
		r.wantCode(r.do("a", "do", doArgs{}), messages.CodeConnection)
	}
	starts := r.f.started("a")
	p := r.start("a", "do", doArgs{}, func(c *messages.Call) { c.Deadline = time.Now().Add(time.Minute) })
	r.f.eventually(t, "the next start is put off", func() bool { return !r.status("a").RetryAt.IsZero() || p.answered() })
	if n := r.f.started("a"); n != starts && !p.answered() {
		t.Errorf("%d starts, want %d until the backoff is over", n, starts)
	}
	r.wantCode(r.wait(p), messages.CodeConnection)
}

func TestCrashWithManyCallsCountsOnce(t *testing.T) {
	r := newRig(t, breaks(time.Hour))
	r.add("a", nil, nil)
	r.ok("a")
	var calls []*pendingCall
	for range 20 {
		calls = append(calls, r.start("a", "do", doArgs{Do: "silent"}))
	}
	r.got("a", methodToolsCall, 21)
	r.f.living("a")[0].crash()
	for _, c := range calls {
		r.wantCode(r.wait(c), messages.CodeToolExecution)
	}
	if s := r.status("a"); s.Breaker != "closed" {
		t.Errorf("one crash with 20 calls opened the breaker: %+v", s)
	}
	r.ok("a")
}
