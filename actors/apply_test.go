package actors

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
	"github.com/metamcp/metamcp/supervision/kernel"
)

func (r *rig) change(name string, change func(s *messages.ServerSpec)) *messages.ServerSpec {
	r.t.Helper()
	s := spec(name, change)
	r.specs[name] = s
	r.apply(Change{Changed: []*messages.ServerSpec{s}})
	return s
}

func newHash(s *messages.ServerSpec) { s.Hash = "2" }

// update gives a server what a running child does not feel.
func (r *rig) update(name string, change func(s *messages.ServerSpec)) {
	r.t.Helper()
	s := spec(name, change)
	r.specs[name] = s
	r.apply(Change{Updated: []*messages.ServerSpec{s}})
}

func TestNewTimeoutHoldsForARunningChild(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.ok("a")
	r.update("a", func(s *messages.ServerSpec) { s.Timeout = 30 * time.Millisecond })
	r.wantCode(r.do("a", "do", doArgs{Do: "silent"}), messages.CodeExecutionTimeout)
	r.ok("a")
	if n := r.f.started("a"); n != 1 {
		t.Errorf("%d starts", n)
	}
}

func TestMoreCallsAtOnceForThoseThatWait(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, func(s *messages.ServerSpec) { s.MaxInFlight = 1 })
	r.ok("a")
	busy := r.start("a", "do", doArgs{Do: "silent"})
	r.got("a", methodToolsCall, 2)
	waits := r.start("a", "do", doArgs{})
	r.update("a", func(s *messages.ServerSpec) { s.MaxInFlight = 4 })
	r.wantResult(r.wait(waits))
	r.e.Cancel(busy.call, "enough")
	r.wantCode(r.wait(busy), messages.CodeCancelled)
}

func TestIdleInstanceIsPingedOnceThatIsWanted(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.ok("a")
	r.settled(1)
	r.update("a", watched)
	r.got("a", methodPing, 2)
}

// What becomes of an idle instance is what its server's entry says now.
func TestNewLifecycleHoldsForAnIdleInstance(t *testing.T) {
	keepAlive := func(s *messages.ServerSpec) { s.Lifecycle = messages.LifecycleKeepAlive }
	short := func(s *messages.ServerSpec) { s.IdleTimeout = 20 * time.Millisecond }
	for name, tt := range map[string]struct {
		before, after func(s *messages.ServerSpec)
	}{
		"a shorter timeout":          {nil, short},
		"kept alive no longer":       {keepAlive, short},
		"kept alive for some time":   {keepAlive, func(s *messages.ServerSpec) { keepAlive(s); short(s) }},
		"ephemeral":                  {nil, func(s *messages.ServerSpec) { s.Lifecycle = messages.LifecycleEphemeral }},
		"kept alive, then ephemeral": {keepAlive, func(s *messages.ServerSpec) { s.Lifecycle = messages.LifecycleEphemeral }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.add("a", nil, tt.before)
			r.ok("a")
			r.settled(1)
			r.update("a", tt.after)
			r.f.eventually(t, "its child ends", func() bool { return r.f.aliveNow() == 0 })
			r.ok("a")
		})
	}
}

func TestChangedServerIsRestartedWhenIdle(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.ok("a")
	old := r.f.living("a")[0]
	busy := r.start("a", "do", doArgs{Do: "late"})
	r.got("a", methodToolsCall, 2)
	r.change("a", newHash)
	r.ok("a") // goes to a child of the new configuration
	if got := r.f.started("a"); got != 2 {
		t.Errorf("%d starts, want 2", got)
	}
	if busy.answered() {
		t.Fatalf("the change took a call in flight: %v", busy.answers[0].Err)
	}
	old.answer([]byte(itoa(busy.call.ID)), `{"content":[]}`)
	r.wantResult(r.wait(busy))
	r.f.eventually(t, "the old child ends", func() bool { return len(r.f.living("a")) == 1 })
}

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

func newFlag() *atomic.Bool { return &atomic.Bool{} }

// Whether a server asks clients is remembered for its entry, as long as it is there.
func TestFormerEntriesAreNoAskers(t *testing.T) {
	r := newRig(t, nil)
	r.add("stays", nil, nil)
	r.ok("stays")
	for i := range 20 {
		name := "renamed" + strconv.Itoa(i)
		r.add(name, nil, nil)
		r.ok(name)
		r.change(name, newHash)
		r.ok(name)
		delete(r.specs, name)
		r.apply(Change{Removed: []string{name}})
	}
	var known []string
	r.e.conns.askers.Range(func(key, _ any) bool {
		known = append(known, key.(string))
		return true
	})
	if len(known) != 1 || known[0] != askerKey(r.specs["stays"]) {
		t.Errorf("%d entries are remembered, %q; want that of the server that stays", len(known), known)
	}
}

func TestChangedIdleServerEndsAtOnce(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.ok("a")
	r.settled(1)
	r.change("a", newHash)
	r.f.eventually(t, "the old child ends", func() bool { return r.f.aliveNow() == 0 })
	r.ok("a")
}

func TestFirstCallOutlivesAChange(t *testing.T) {
	for _, size := range []int{1, 20} {
		r := newRig(t, places(size))
		r.add("a", &script{slow: 60 * time.Millisecond}, nil)
		p := r.start("a", "do", doArgs{})
		r.got("a", methodInitialize, 1)
		r.change("a", newHash)
		r.wantResult(r.wait(p))
		r.close()
	}
}

func TestFirstCallThatWaitsForAPlaceOutlivesAChange(t *testing.T) {
	r := newRig(t, places(1))
	r.add("a", nil, nil)
	r.add("b", nil, nil)
	busy := r.start("b", "do", doArgs{Do: "silent"})
	r.got("b", methodToolsCall, 1)
	p := r.start("a", "do", doArgs{})
	r.f.eventually(t, "a waits", func() bool { return r.stats().Waiting == 1 })
	r.change("a", newHash)
	r.e.Cancel(busy.call, "enough")
	r.wantResult(r.wait(p))
}

func TestRemovedWithCallsInFlight(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.ok("a")
	finishes := r.start("a", "do", doArgs{Do: "delay", Ms: 40})
	r.got("a", methodToolsCall, 2)
	delete(r.specs, "a")
	r.apply(Change{Removed: []string{"a"}, Drain: soon})
	r.wantResult(r.wait(finishes))
	r.f.eventually(t, "its child ends", func() bool { return r.f.aliveNow() == 0 })
	r.wantCode(r.do("a", "do", doArgs{}), messages.CodeServerNotFound)
	r.add("a", nil, nil)
	r.ok("a")
}

// TestCancelAtARemovedServer: a call that a removed server still works at can be
// given up, also where there is a server of that name again.
func TestCancelAtARemovedServer(t *testing.T) {
	for _, again := range []bool{false, true} {
		r := newRig(t, nil)
		r.add("a", nil, nil)
		r.ok("a")
		s, err := r.e.OpenSession(nil)
		if err != nil {
			t.Fatal(err)
		}
		ofSession := newPort()
		call := &messages.Call{
			ID: lastCall.Add(1), Server: "a", Tool: "do", Args: []byte(`{"do":"silent"}`), Cancelled: newFlag(), Reply: ofSession,
		}
		r.ports = append(r.ports, ofSession)
		s.Call(call)
		own := r.start("a", "do", doArgs{Do: "silent"})
		r.s.programs["silent"] = func(s *fakeScript) {
			s.ask(messages.ScriptAsk{Kind: messages.AskCall, Server: "a", Tool: "do", Args: []byte(`{"do":"silent"}`)})
			s.hang()
		}
		script := r.script("silent")
		r.got("a", methodToolsCall, 4)
		delete(r.specs, "a")
		r.apply(Change{Removed: []string{"a"}, Drain: time.Hour})
		if again {
			r.add("a", nil, nil)
		}
		r.e.Cancel(own.call, "enough")
		r.wantCode(r.wait(own), messages.CodeCancelled)
		r.got("a", methodCancelled, 1)
		s.Cancel(call.ID, "enough")
		r.wantCode(r.wait(&pendingCall{ofSession, call}), messages.CodeCancelled)
		r.got("a", methodCancelled, 2)
		r.e.CancelRun(script.run, "enough")
		r.refusedRun(script, messages.CodeCancelled)
		r.got("a", methodCancelled, 3)
		r.f.eventually(t, "its child ends", func() bool { return r.f.aliveNow() == 0 })
		s.Close()
		r.close()
	}
}

func TestRemovedWithoutMuchTime(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	hangs := r.start("a", "do", doArgs{Do: "silent"})
	r.got("a", methodToolsCall, 1)
	delete(r.specs, "a")
	r.apply(Change{Removed: []string{"a"}, Drain: 30 * time.Millisecond})
	r.wantCode(r.wait(hangs), messages.CodeServerNotFound)
	r.f.eventually(t, "its child ends", func() bool { return r.f.aliveNow() == 0 })
}

func TestBrokenEntry(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.ok("a")
	r.change("a", func(s *messages.ServerSpec) {
		s.Hash = "3"
		s.Err = &messages.Error{Code: messages.CodeConfiguration, Message: "no command"}
	})
	err := r.wantCode(r.do("a", "do", doArgs{}), messages.CodeConfiguration)
	if !strings.Contains(err.Message, "no command") {
		t.Errorf("message %q", err.Message)
	}
	r.f.eventually(t, "its child ends", func() bool { return r.f.aliveNow() == 0 })
}

func (r *rig) drained(done <-chan struct{}) {
	r.t.Helper()
	t := time.NewTimer(soon)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		r.t.Fatal("the drain does not end")
	}
}

func TestDrainLetsCallsFinish(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.ok("a")
	p := r.start("a", "do", doArgs{Do: "delay", Ms: 40})
	r.got("a", methodToolsCall, 2)
	done := r.e.Drain(time.Now().Add(soon))
	r.wantCode(r.do("a", "do", doArgs{}), messages.CodeShuttingDown)
	r.wantResult(r.wait(p))
	r.drained(done)
	if n := r.f.aliveNow(); n != 0 {
		t.Errorf("%d children are alive", n)
	}
}

func TestSecondDrainShortensTheFirst(t *testing.T) {
	r := newRig(t, places(1))
	r.add("a", nil, nil)
	r.add("b", nil, nil)
	r.ok("b")
	inFlight := r.start("a", "do", doArgs{Do: "silent"})
	r.got("a", methodToolsCall, 1)
	waits := r.start("b", "do", doArgs{})
	r.f.eventually(t, "b waits", func() bool { return r.stats().Waiting == 1 })
	first := r.e.Drain(time.Now().Add(time.Hour))
	second := r.e.Drain(time.Now())
	r.wantCode(r.wait(inFlight), messages.CodeShuttingDown)
	r.wantCode(r.wait(waits), messages.CodeShuttingDown)
	r.drained(first)
	r.drained(second)
}

func TestDrainShortensARemoval(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	p := r.start("a", "do", doArgs{Do: "silent"})
	r.got("a", methodToolsCall, 1)
	delete(r.specs, "a")
	r.apply(Change{Removed: []string{"a"}, Drain: time.Hour})
	r.drained(r.e.Drain(time.Now()))
	r.wantCode(r.wait(p), messages.CodeShuttingDown)
}

func TestCloseAnswersEverybody(t *testing.T) {
	r := newRig(t, func(s *supervision.PoolSettings) { s.Pool.Size = 2 })
	r.add("a", nil, nil)
	r.add("b", &script{silent: []string{methodInitialize, methodDiscover}}, nil)
	r.add("c", nil, nil)
	inFlight := r.start("a", "do", doArgs{Do: "silent"})
	r.got("a", methodToolsCall, 1)
	connecting := r.start("b", "do", doArgs{})
	r.got("b", methodInitialize, 1)
	waiting := r.start("c", "do", doArgs{})
	r.f.eventually(t, "c waits", func() bool { return r.stats().Waiting == 1 })
	r.close()
	for _, p := range []*pendingCall{inFlight, connecting, waiting} {
		r.wantCode(r.wait(p), messages.CodeShuttingDown)
	}
}

func TestClosedEngineAnswersStill(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.ok("a")
	r.close()
	r.wantCode(r.do("a", "do", doArgs{}), messages.CodeShuttingDown)
	r.wantCode(r.do("a", "typed", doArgs{}), messages.CodeShuttingDown) // would need a worker
	r.wantCode(r.do("nobody", "do", doArgs{}), messages.CodeShuttingDown)
	p := &contactPort{done: make(chan struct{})}
	r.e.Contact("a", true, p)
	r.heard(p)
	r.drained(r.e.Drain(time.Now()))
	if _, err := r.e.OpenSession(nil); err == nil {
		t.Error("a session was opened after the end")
	}
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	if err := r.e.Close(ctx, time.Now()); err != nil {
		t.Errorf("the second Close: %v", err)
	}
}

// typeWatch sees that an actor has dealt with a message of one type.
type typeWatch struct {
	*recorder
	of   string
	seen chan struct{}
}

func (w typeWatch) Message(m *kernel.Record) {
	if m.Type == w.of {
		poke(w.seen)
	}
}

// TestCatalogSettingsHoldAtOnce: how old a listing may be, and how often what nobody
// needs is removed, also where the next look would have been in an hour.
func TestCatalogSettingsHoldAtOnce(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.ok("a")
	known := r.e.Catalog().Server("a")
	if !r.e.Fresh(known) {
		t.Error("a listing is old although none can be")
	}
	watch := typeWatch{r.trace, "Sweep", make(chan struct{}, 1)}
	r.e.sys.SetTracer(watch)
	r.e.ConfigureCatalog(time.Nanosecond, time.Millisecond)
	if r.e.Fresh(known) {
		t.Error("the new age does not count")
	}
	limit := time.NewTimer(soon)
	defer limit.Stop()
	for range 2 {
		select {
		case <-watch.seen:
		case <-limit.C:
			t.Fatal("nobody sweeps")
		}
	}
	r.e.ConfigureCatalog(time.Nanosecond, time.Hour)
}

// TestSweepsAreNotDoubled: an alarm that was on its way when the distance changed
// begins no series of its own.
func TestSweepsAreNotDoubled(t *testing.T) {
	r := newRig(t, nil)
	watch := typeWatch{r.trace, "Sweep", make(chan struct{}, 1)}
	r.e.sys.SetTracer(watch)
	r.e.sys.Send(r.e.root, &sweepDue{0})
	s, err := r.e.OpenSession(nil) // the root has taken it then
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	r.apply(Change{}) // and the index what came of it
	select {
	case <-watch.seen:
		t.Error("it swept")
	default:
	}
}

func TestSessionGoes(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.ok("a")
	s, err := r.e.OpenSession(nil)
	if err != nil {
		t.Fatal(err)
	}
	call := func(do string) *pendingCall {
		p := newPort()
		c := &messages.Call{
			ID: lastCall.Add(1), Server: "a", Method: methodToolsCall, Tool: "do", Args: []byte(`{"do":"` + do + `","ms":5,"n":3}`),
			Cancelled: newFlag(), Reply: p, Progress: p,
		}
		r.ports = append(r.ports, p)
		s.Call(c)
		return &pendingCall{p, c}
	}
	withProgress := call("progress")
	r.wantResult(r.wait(withProgress))
	if n := len(withProgress.progress); n != 3 {
		t.Errorf("%d progress notifications, want 3", n)
	}
	given := call("silent")
	r.got("a", methodToolsCall, 3)
	s.Cancel(given.call.ID, "enough")
	r.wantCode(r.wait(given), messages.CodeCancelled)
	open := call("silent")
	r.got("a", methodToolsCall, 4)
	s.Close()
	r.wantCode(r.wait(open), messages.CodeCancelled)
	r.got("a", methodCancelled, 2)
	r.wantCode(r.wait(call("")), messages.CodeCancelled)
	if c := r.e.Counts(); c.InFlight != 0 || c.Total != 4 || c.Failed != 3 {
		t.Errorf("counts are %+v; want four calls that have ended, three of them cancelled", c)
	}
}
