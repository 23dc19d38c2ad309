package actors

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

func places(n int) func(*supervision.PoolSettings) {
	return func(s *supervision.PoolSettings) { s.Pool.Size = n }
}

func (r *rig) addMany(n int) []string {
	r.t.Helper()
	var names []string
	for i := range n {
		name := "s" + strconv.Itoa(i)
		r.add(name, nil, nil)
		names = append(names, name)
	}
	return names
}

func (r *rig) most() int {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	return r.f.most
}

func TestPoolHoldsItsLimit(t *testing.T) {
	r := newRig(t, places(2))
	names := r.addMany(8)
	for range 2 {
		for _, n := range names {
			r.ok(n)
		}
	}
	var all []*pendingCall
	for range 3 {
		for _, n := range names {
			all = append(all, r.start(n, "do", doArgs{Do: "delay", Ms: 3}))
		}
	}
	for _, p := range all {
		r.wantResult(r.wait(p))
	}
	if got := r.most(); got > 2 {
		t.Errorf("%d children were alive at the same time", got)
	}
}

func TestLeastRecentlyUsedGoesFirst(t *testing.T) {
	r := newRig(t, places(3))
	r.addMany(4)
	for i, n := range []string{"s0", "s1", "s2"} {
		r.ok(n)
		r.settled(i + 1)
	}
	r.ok("s0") // used again: s1 is now the oldest
	r.settled(3)
	r.ok("s3")
	for server, want := range map[string]int{"s0": 1, "s1": 0, "s2": 1, "s3": 1} {
		if got := len(r.f.living(server)); got != want {
			t.Errorf("%s: %d alive, want %d", server, got, want)
		}
	}
	if r.e.Catalog().Server("s1") == nil {
		t.Error("the evicted server's tools are forgotten")
	}
}

func TestBusyIsNeverEvicted(t *testing.T) {
	r := newRig(t, func(s *supervision.PoolSettings) { s.Pool.Size, s.Pool.AcquireTimeout = 1, 50*time.Millisecond })
	r.addMany(2)
	busy := r.start("s0", "do", doArgs{Do: "silent"})
	r.got("s0", methodToolsCall, 1)
	err := r.wantCode(r.do("s1", "do", doArgs{}), messages.CodePoolSaturated)
	if !err.Retryable {
		t.Errorf("refusal %+v", err)
	}
	if busy.answered() {
		t.Error("the busy connection lost its call")
	}
	r.e.Cancel(busy.call, "enough")
	r.ok("s1")
}

func TestWaitersAreServedInOrder(t *testing.T) {
	r := newRig(t, places(1))
	names := r.addMany(5)
	for _, n := range names {
		r.ok(n) // the tools are known
	}
	busy := r.start("s0", "do", doArgs{Do: "silent"})
	r.got("s0", methodToolsCall, 2)
	r.f.mu.Lock()
	from := len(r.f.links)
	r.f.mu.Unlock()
	var waiting []*pendingCall
	for i, n := range names[1:] {
		waiting = append(waiting, r.start(n, "do", doArgs{}))
		r.f.eventually(t, n+" waits", func() bool { return r.stats().Waiting == i+1 })
	}
	r.e.Cancel(busy.call, "enough")
	for _, p := range waiting {
		r.wantResult(r.wait(p))
	}
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	for i, l := range r.f.links[from:] {
		if l.server != names[i+1] {
			t.Errorf("place %d went to %s, want %s", i, l.server, names[i+1])
		}
	}
}

func TestTooManyWaitersAreRefused(t *testing.T) {
	r := newRig(t, func(s *supervision.PoolSettings) { s.Pool.Size, s.Pool.MaxWaiters = 1, 1 })
	r.addMany(3)
	busy := r.start("s0", "do", doArgs{Do: "silent"})
	r.got("s0", methodToolsCall, 1)
	waits := r.start("s1", "do", doArgs{})
	r.f.eventually(t, "s1 waits", func() bool { return r.stats().Waiting == 1 })
	r.wantCode(r.do("s2", "do", doArgs{}), messages.CodePoolSaturated)
	r.e.Cancel(busy.call, "enough")
	r.wantResult(r.wait(waits))
}

func TestReserveServesTheOldestWaiter(t *testing.T) {
	r := newRig(t, func(s *supervision.PoolSettings) {
		s.Pool.Size, s.Pool.Reserve, s.Pool.ReserveAfter = 1, 1, 30*time.Millisecond
	})
	r.addMany(2)
	busy := r.start("s0", "do", doArgs{Do: "silent"})
	r.got("s0", methodToolsCall, 1)
	r.ok("s1")
	if got := r.most(); got != 2 {
		t.Errorf("%d children, want 2", got)
	}
	r.f.eventually(t, "the reserve place closes when idle", func() bool { return r.f.aliveNow() == 1 })
	r.e.Cancel(busy.call, "enough")
}

func TestLifecycles(t *testing.T) {
	r := newRig(t, func(s *supervision.PoolSettings) { s.Pool.Size = 2 })
	r.add("kept", nil, func(s *messages.ServerSpec) { s.Lifecycle = messages.LifecycleKeepAlive })
	r.add("brief", nil, func(s *messages.ServerSpec) { s.Lifecycle = messages.LifecycleEphemeral })
	r.add("plain", nil, nil)
	r.add("other", nil, nil)
	r.ok("kept")
	r.settled(1)
	r.ok("brief")
	r.f.eventually(t, "the ephemeral one ends", func() bool { return len(r.f.living("brief")) == 0 })
	r.settled(1) // its place is free again
	if got := r.f.started("brief"); got != 1 {
		t.Errorf("the first call started %d ephemeral children", got)
	}
	r.ok("plain")
	r.settled(2)
	r.ok("other") // takes plain's place, though kept is the older one
	if len(r.f.living("kept")) != 1 || len(r.f.living("plain")) != 0 {
		t.Errorf("kept %d, plain %d", len(r.f.living("kept")), len(r.f.living("plain")))
	}
}

func TestIdleSweepLeavesTheMinimum(t *testing.T) {
	r := newRig(t, func(s *supervision.PoolSettings) { s.Pool.IdleTimeout, s.Pool.Min = 40*time.Millisecond, 1 })
	for _, n := range r.addMany(3) {
		r.ok(n)
	}
	r.add("kept", nil, func(s *messages.ServerSpec) { s.Lifecycle = messages.LifecycleKeepAlive })
	r.ok("kept")
	r.f.eventually(t, "the idle ones are swept", func() bool { return r.f.aliveNow() == 1 })
	if len(r.f.living("kept")) != 1 {
		t.Error("the keep-alive server was swept")
	}
	r.settled(1)
}

func TestSecondInstanceForABusyServer(t *testing.T) {
	r := newRig(t, places(2))
	r.add("a", nil, func(s *messages.ServerSpec) { s.MaxInstances = 2 })
	r.ok("a")
	r.settled(1)
	var calls []*pendingCall
	for range 4 {
		calls = append(calls, r.start("a", "do", doArgs{Do: "silent"}))
	}
	r.got("a", methodToolsCall, 5)
	if got := r.f.started("a"); got != 2 {
		t.Errorf("%d instances, want 2", got)
	}
	for _, l := range r.f.living("a") {
		l.mu.Lock()
		n := 0
		for _, m := range l.got {
			if m.Method == methodToolsCall {
				n++
			}
		}
		l.mu.Unlock()
		if n == 0 {
			t.Errorf("instance %d got no call", l.n)
		}
	}
	for _, c := range calls {
		r.e.Cancel(c.call, "enough")
	}
	r.settled(2)
}

// Of several idle instances the one that was used last gets the next call, so that the
// others are idle for long enough to be ended.
func TestIdleInstancesAreReusedLastFirst(t *testing.T) {
	r := newRig(t, places(2))
	r.add("a", nil, func(s *messages.ServerSpec) { s.MaxInstances = 2 })
	r.ok("a")
	r.settled(1)
	calls := []*pendingCall{r.start("a", "do", doArgs{Do: "silent"}), r.start("a", "do", doArgs{Do: "silent"})}
	r.got("a", methodToolsCall, 3)
	if n := r.f.started("a"); n != 2 {
		t.Fatalf("%d instances, want 2", n)
	}
	has := func(l *fakeLink, call *pendingCall) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return slices.ContainsFunc(l.got, func(m rpcLine) bool {
			id, ok := messages.ParseRequestID(m.ID)
			return m.Method == methodToolsCall && ok && id == call.call.ID
		})
	}
	for _, last := range []int{0, 1} { // either of them may be the last
		r.e.Cancel(calls[1-last].call, "enough")
		r.wantCode(r.wait(calls[1-last]), messages.CodeCancelled)
		r.f.eventually(t, "the first is idle", func() bool { return r.stats().Idle == 1 })
		r.e.Cancel(calls[last].call, "enough")
		r.wantCode(r.wait(calls[last]), messages.CodeCancelled)
		r.settled(2)
		for range 3 {
			next := r.start("a", "do", doArgs{})
			r.wantResult(r.wait(next))
			r.settled(2)
			for _, l := range r.f.living("a") {
				if has(l, next) != has(l, calls[last]) {
					t.Errorf("instance %d: used for the call %t, the last before %t", l.n, has(l, next), has(l, calls[last]))
				}
			}
		}
		calls = []*pendingCall{r.start("a", "do", doArgs{Do: "silent"}), r.start("a", "do", doArgs{Do: "silent"})}
		r.f.eventually(t, "both are busy", func() bool { return r.stats().Busy == 2 })
	}
	for _, c := range calls {
		r.e.Cancel(c.call, "enough")
	}
	r.settled(2)
}

// TestPlacesGoRoundThePrincipals has three sessions of one token wait for the only
// place, and behind them one of another: that is served second.
func TestPlacesGoRoundThePrincipals(t *testing.T) {
	g := &gatekeeper{}
	r := newRig(t, places(1))
	for i := range 5 {
		name := "s" + strconv.Itoa(i)
		r.add(name, g.script(), nil)
		r.ok(name) // its tools are known from now on
	}
	all := []*pendingCall{r.by(r.session(), "s0", "hold neither")}
	r.f.eventually(t, "the place is taken", func() bool { return g.count("") == 1 })
	for i, who := range []string{"a", "a", "a", "b"} {
		s := r.session()
		s.BelongsTo("token " + who)
		all = append(all, r.by(s, "s"+strconv.Itoa(i+1), "hold "+who))
		r.f.eventually(t, "it waits", func() bool { return r.stats().Waiting == i+1 })
	}
	r.wantTurns(g, all, "abaa")
}

// TestSecondInstanceWithoutAPlace: the server does not end its idle instance for the
// place of another one.
func TestSecondInstanceWithoutAPlace(t *testing.T) {
	r := newRig(t, places(1))
	r.add("a", nil, func(s *messages.ServerSpec) { s.MaxInstances = 2 })
	r.ok("a")
	r.settled(1)
	busy := r.start("a", "do", doArgs{Do: "silent"})
	r.got("a", methodToolsCall, 2)
	next := r.start("a", "do", doArgs{})
	// It waits for two seconds only, which may be over before anybody looks.
	r.f.eventually(t, "another instance waits for a place", func() bool { return r.stats().Waiting == 1 || next.answered() })
	r.e.Cancel(busy.call, "enough")
	r.wantResult(r.wait(next))
	r.settled(1)
	if n := r.f.started("a"); n != 1 {
		t.Errorf("%d starts, want 1", n)
	}
}

// TestSecondInstanceThatStartsSlowly: it keeps nobody from the first one.
func TestSecondInstanceThatStartsSlowly(t *testing.T) {
	r := newRig(t, nil)
	starts := make(chan struct{})
	r.add("a", &script{launch: func(n int) error {
		if n > 1 {
			<-starts
		}
		return nil
	}}, func(s *messages.ServerSpec) { s.MaxInstances = 2 })
	defer r.close() // which waits for the start
	defer close(starts)
	r.ok("a")
	r.settled(1)
	var busy []*pendingCall
	busy = append(busy, r.start("a", "do", doArgs{Do: "silent"}))
	r.got("a", methodToolsCall, 2)
	first := r.start("a", "do", doArgs{})
	r.f.eventually(t, "the second one starts", func() bool { return r.f.started("a") == 2 })
	for range 3 {
		busy = append(busy, r.start("a", "do", doArgs{Do: "silent"}))
	}
	r.got("a", methodToolsCall, 5)
	r.wantResult(r.wait(first))
	for _, p := range busy {
		r.e.Cancel(p.call, "enough")
	}
	r.f.eventually(t, "the first one is idle", func() bool { return r.stats().Idle == 1 })
}

// TestSecondInstanceThatDoesNotStart: the first one takes the call.
func TestSecondInstanceThatDoesNotStart(t *testing.T) {
	r := newRig(t, func(s *supervision.PoolSettings) { s.FailureThreshold = 1 })
	r.add("a", &script{launch: func(n int) error {
		if n > 1 {
			return errRefused
		}
		return nil
	}}, func(s *messages.ServerSpec) { s.MaxInstances = 2 })
	r.ok("a")
	r.settled(1)
	busy := r.start("a", "do", doArgs{Do: "silent"})
	r.got("a", methodToolsCall, 2)
	r.ok("a")
	if n, s := r.f.started("a"), r.status("a"); n != 2 || s.Breaker != "closed" || s.LastError != nil {
		t.Errorf("%d starts, want 2; status %+v", n, s)
	}
	r.e.Cancel(busy.call, "enough")
	r.settled(1)
}

// takesBack is a caller who takes a call back that no child has.
type takesBack struct{ r *rig }

func (takesBack) Holds() bool { return true }
func (b takesBack) TakeBack(call *messages.Call) {
	b.r.e.refuse(call, supervision.Cancelled(call))
}

// TestWhoGaveUpWaitsForNoPlace: a server that nobody waits for any more has no turn
// before those that somebody does, and is not started.
func TestWhoGaveUpWaitsForNoPlace(t *testing.T) {
	r := newRig(t, places(1))
	names := r.addMany(6)
	for _, n := range names {
		r.ok(n) // the tools are known
	}
	r.settled(1)
	busy := r.start("s0", "do", doArgs{Do: "silent"})
	r.got("s0", methodToolsCall, 2)
	inTime := r.start("s1", "do", doArgs{}, func(c *messages.Call) { c.Deadline = time.Now().Add(50 * time.Millisecond) })
	cancelled := []*pendingCall{r.start("s2", "do", doArgs{}), r.start("s2", "do", doArgs{})}
	guest := r.session()
	left := r.by(guest, "s3", "echo")
	r.f.eventually(t, "they wait", func() bool { return r.stats().Waiting >= 2 })
	r.wantCode(r.do("s4", "do", doArgs{}, func(c *messages.Call) { c.Held = takesBack{r} }), messages.CodeCancelled)

	r.e.Cancel(cancelled[0].call, "enough")
	r.wantCode(r.wait(cancelled[0]), messages.CodeCancelled)
	if n := r.stats().Waiting; n == 0 {
		t.Error("the place is not waited for though one call does")
	}
	r.e.Cancel(cancelled[1].call, "enough")
	guest.Close()
	r.wantCode(r.wait(cancelled[1]), messages.CodeCancelled)
	r.wantCode(r.wait(left), messages.CodeCancelled)
	r.wantCode(r.wait(inTime), messages.CodeExecutionTimeout)
	r.f.eventually(t, "nobody waits for a place", func() bool { return r.stats().Waiting == 0 })

	next := r.start("s5", "do", doArgs{})
	r.f.eventually(t, "it waits", func() bool { return r.stats().Waiting == 1 })
	r.e.Cancel(busy.call, "enough")
	r.wantResult(r.wait(next))
	r.settled(1)
	for _, n := range names[1:5] {
		if got := r.f.started(n); got != 1 {
			t.Errorf("%s was started %d times", n, got)
		}
	}
}

// TestEachCallWaitsForAPlaceForItsOwnTime: one that comes later, be it of the same client
// or of another, is not refused with the first.
func TestEachCallWaitsForAPlaceForItsOwnTime(t *testing.T) {
	const patience = 2 * time.Second
	r := newRig(t, func(s *supervision.PoolSettings) { s.Pool.Size, s.Pool.AcquireTimeout = 1, patience })
	for _, n := range r.addMany(3) {
		r.ok(n) // the tools are known
	}
	r.settled(1)
	busy := r.start("s0", "do", doArgs{Do: "silent"})
	r.got("s0", methodToolsCall, 2)
	first, second := r.session(), r.session()
	calls := []*pendingCall{r.by(first, "s1", "echo")}
	// Half of its time goes by.
	r.do("s2", "do", doArgs{}, func(c *messages.Call) { c.Deadline = time.Now().Add(patience / 2) })
	begun := time.Now()
	calls = append(calls, r.by(first, "s1", "echo"), r.by(second, "s1", "echo"))
	r.wantCode(r.wait(calls[0]), messages.CodePoolSaturated)
	for i, p := range calls[1:] {
		r.wantCode(r.wait(p), messages.CodePoolSaturated)
		if took := time.Since(begun); took < patience {
			t.Errorf("call %d waited for %s", i+1, took)
		}
	}
	r.e.Cancel(busy.call, "enough")
}
