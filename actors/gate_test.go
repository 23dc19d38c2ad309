package actors

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// memoryKeeper remembers in memory what was accepted: the definitions byte for
// byte.
type memoryKeeper struct {
	mu       sync.Mutex
	accepted map[string]*memoryAccepted
	keeps    int
	last     string // the server of the last of them
	begun    atomic.Int32
	panics   bool
	hold     chan struct{} // Keep waits until it is closed, or takes what is sent; nil: for nothing
	reviews  atomic.Int32  // which of the next reviews breaks; 0: none
}

type memoryAccepted struct {
	tools     map[string]string
	approvals int
	reviews   *atomic.Int32 // nil: all of them go well
}

func newMemoryKeeper() *memoryKeeper { return &memoryKeeper{accepted: map[string]*memoryAccepted{}} }

func (k *memoryKeeper) Load(server string) messages.Accepted {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a := k.accepted[server]; a != nil {
		return a
	}
	return &memoryAccepted{}
}

func (k *memoryKeeper) Keep(ts *messages.Toolset) messages.Accepted {
	k.begun.Add(1)
	if k.hold != nil {
		<-k.hold
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.panics {
		panic("the disk breaks")
	}
	k.keeps++
	k.last = ts.Server
	if k.accepted[ts.Server] == nil {
		a := &memoryAccepted{tools: map[string]string{}, reviews: &k.reviews}
		for _, t := range ts.Tools {
			a.tools[t.Name] = string(t.Raw)
		}
		k.accepted[ts.Server] = a
	}
	return k.accepted[ts.Server]
}

func (k *memoryKeeper) Forget(server string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.accepted, server)
}

// approve accepts one definition.
func (k *memoryKeeper) approve(server, tool, raw string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	old := k.accepted[server]
	next := &memoryAccepted{tools: maps.Clone(old.tools), approvals: old.approvals + 1}
	next.tools[tool] = raw
	k.accepted[server] = next
}

func (a *memoryAccepted) Pinned() bool   { return a.tools != nil }
func (a *memoryAccepted) Approvals() int { return a.approvals }

func (a *memoryAccepted) Review(ts *messages.Toolset, mode messages.PinMode) *messages.Review {
	r := &messages.Review{Tools: map[string]*messages.ToolReview{}}
	if a.tools == nil {
		return r
	}
	if a.reviews != nil && a.reviews.Add(-1) == 0 {
		panic("the review breaks")
	}
	for _, t := range ts.Tools {
		switch old, ok := a.tools[t.Name]; {
		case !ok:
			r.Tools[t.Name] = &messages.ToolReview{Change: messages.ToolNew, Held: mode == messages.PinsHold}
		case old != string(t.Raw):
			r.Tools[t.Name] = &messages.ToolReview{Change: messages.ToolAltered, Parts: []string{"description"}, Held: mode == messages.PinsHold}
		}
	}
	r.Unrecorded = len(r.Tools) > 0
	return r
}

// turncoat is a server whose tools change while it runs and between its runs. A
// child lists and does what the world was when it started, or when it announced a
// change last. "read" never changes.
type turncoat struct {
	mu       sync.Mutex
	world    map[string]int // version of each tool; below 0: there is none
	children map[*fakeLink]map[string]int
	fine     map[string]bool // definitions that were ever accepted
	wrong    []string
	called   int
}

func newTurncoat() *turncoat {
	c := &turncoat{world: map[string]int{"do": 0, "twice": 0, "late": -1, "read": 0}, children: map[*fakeLink]map[string]int{}, fine: map[string]bool{}}
	for tool, v := range c.world {
		if v >= 0 {
			c.fine[definitionOf(tool, v)] = true
		}
	}
	return c
}

func definitionOf(tool string, version int) string {
	return `{"name":"` + tool + `","description":"version ` + strconv.Itoa(version) + `","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`
}

// of is what a child has; the lock is held.
func (c *turncoat) of(l *fakeLink) map[string]int {
	if c.children[l] == nil {
		c.children[l] = maps.Clone(c.world)
	}
	return c.children[l]
}

func (c *turncoat) answer(l *fakeLink, m rpcLine) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	mine := c.of(l)
	switch m.Method {
	case methodToolsList:
		var defs []string
		for _, tool := range []string{"do", "late", "read", "twice"} {
			if mine[tool] >= 0 {
				defs = append(defs, definitionOf(tool, mine[tool]))
			}
		}
		l.answer(m.ID, `{"tools":[`+strings.Join(defs, ",")+`]}`)
		return true
	case methodToolsCall:
		var p struct {
			Name string
			Args doArgs `json:"arguments"`
		}
		_ = json.Unmarshal(m.Params, &p) // a line of ours
		c.called++
		if !c.fine[definitionOf(p.Name, mine[p.Name])] {
			c.wrong = append(c.wrong, fmt.Sprintf("%s#%d got a call of %s, which is at version %d", l.server, l.n, p.Name, mine[p.Name]))
		}
		if p.Args.Do == "changed" {
			c.children[l] = maps.Clone(c.world)
		}
	}
	return false
}

// TestNoChangedToolIsCalledBeforeApproval draws servers that change their tools
// at restarts, announced and unannounced, with one child and with two, while
// calls come from several sides and tools are accepted one by one.
func TestNoChangedToolIsCalledBeforeApproval(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { turn(t, rand.New(rand.NewPCG(seed, 5))) })
	}
}

func turn(t *testing.T, random *rand.Rand) {
	const steps = 60
	k, c := newMemoryKeeper(), newTurncoat()
	r := newRigWith(t, func(s *supervision.PoolSettings) { s.FailureThreshold = 1000; s.Cooldown = time.Millisecond }, keptBy(k))
	r.e.SetPins(messages.PinsHold)
	r.add("a", &script{answers: c.answer}, func(s *messages.ServerSpec) { s.MaxInstances = 1 + random.IntN(2) })
	tools := []string{"do", "twice", "late"}
	r.wantResult(r.do("a", "read", doArgs{}))
	refused, passed := 0, 0
	call := func(tool string, args doArgs) {
		switch a := r.do("a", tool, args); {
		case a.Err == nil:
			passed++
		case a.Err.Code == messages.CodeToolDisabled:
			refused++
		}
	}
	for range steps {
		tool := tools[random.IntN(len(tools))]
		switch random.IntN(6) {
		case 0: // the world changes, or goes back
			c.mu.Lock()
			c.world[tool] = random.IntN(3)
			c.mu.Unlock()
		case 1: // a child announces it
			r.do("a", "read", doArgs{Do: "changed"})
		case 2: // a child ends
			if living := r.f.living("a"); len(living) > 0 {
				living[random.IntN(len(living))].crash()
			}
		case 3: // what is there is accepted
			c.mu.Lock()
			v := c.world[tool]
			c.fine[definitionOf(tool, v)] = true
			c.mu.Unlock()
			k.approve("a", tool, definitionOf(tool, v))
			r.e.PinsChanged([]string{"a"})
		case 4: // calls at the same time, for several children
			var calls []*pendingCall
			for range 4 {
				calls = append(calls, r.start("a", tools[random.IntN(len(tools))], doArgs{Do: "delay", Ms: 1}))
			}
			for _, p := range calls {
				r.wait(p)
			}
		default:
			call(tool, doArgs{})
		}
	}
	r.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.wrong {
		t.Error(w)
	}
	t.Logf("%d calls came through, %d passed and %d were refused one by one", c.called, passed, refused)
}

// TestApprovalOpensWhatWasApproved: of two instances one has another definition of a
// tool. Who accepts that opens the tool there, and not at the other.
func TestApprovalOpensWhatWasApproved(t *testing.T) {
	k, c := newMemoryKeeper(), newTurncoat()
	r := newRigWith(t, nil, keptBy(k))
	r.e.SetPins(messages.PinsHold)
	r.add("a", &script{answers: c.answer}, func(s *messages.ServerSpec) { s.MaxInstances = 2 })
	r.wantResult(r.do("a", "do", doArgs{})) // the first definition is accepted
	c.mu.Lock()
	c.world["do"] = 1
	c.mu.Unlock()
	// A call goes to the instance that was used last, where that is free.
	both := func() (passed, refused int) {
		busy := r.start("a", "read", doArgs{Do: "delay", Ms: 5})
		atTheOther := r.start("a", "do", doArgs{})
		r.wait(busy)
		for _, p := range []*pendingCall{atTheOther, r.start("a", "do", doArgs{})} {
			switch a := r.wait(p); {
			case a.Err == nil:
				passed++
			case a.Err.Code == messages.CodeToolDisabled:
				refused++
			}
		}
		return passed, refused
	}
	r.f.eventually(t, "a second instance runs", func() bool { both(); return len(r.f.living("a")) == 2 })
	r.f.eventually(t, "its definition is known", func() bool { _, refused := both(); return refused == 2 })
	c.mu.Lock()
	c.fine = map[string]bool{definitionOf("do", 1): true, definitionOf("read", 0): true}
	c.mu.Unlock()
	k.approve("a", "do", definitionOf("do", 1))
	r.e.PinsChanged([]string{"a"})
	passed, refused := 0, 0
	r.f.eventually(t, "it is open at the one, and closed at the other", func() bool {
		p, q := both()
		if passed += p; passed > 0 {
			refused += q
		}
		return passed > 5 && refused > 5
	})
	r.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.wrong {
		t.Error(w)
	}
}

// TestApprovalOutlivesOlderReadings: the worker that records the differences of many
// servers tells of all at the end. What was approved meanwhile stays open.
func TestApprovalOutlivesOlderReadings(t *testing.T) {
	k, c := newMemoryKeeper(), newTurncoat()
	k.hold = make(chan struct{})
	defer close(k.hold)
	r := newRigWith(t, nil, keptBy(k))
	r.e.SetPins(messages.PinsHold)
	open := func(server string) bool { return r.do(server, "do", doArgs{}).Err == nil }
	for _, server := range []string{"a", "b"} {
		r.add(server, &script{answers: c.answer}, nil)
		first := r.start(server, "do", doArgs{})
		k.hold <- struct{}{}
		r.wantResult(r.wait(first))
	}
	// While one server keeps the disk busy, two others change.
	r.add("busy", nil, nil)
	busy := r.start("busy", "do", doArgs{})
	r.f.eventually(t, "the disk is busy", func() bool { return k.begun.Load() == 3 })
	c.mu.Lock()
	c.world["do"] = 1
	c.mu.Unlock()
	for _, server := range []string{"a", "b"} {
		r.wantResult(r.do(server, "read", doArgs{Do: "changed"}))
		r.f.eventually(t, "the change is known", func() bool { return !open(server) })
	}
	k.hold <- struct{}{}
	r.wantResult(r.wait(busy))
	k.hold <- struct{}{} // the differences of one of them are recorded
	var approved string
	r.f.eventually(t, "one is recorded", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		approved = k.last
		return k.keeps == 4
	})
	other := map[string]string{"a": "b", "b": "a"}[approved]
	k.approve(approved, "do", definitionOf("do", 1))
	r.e.PinsChanged([]string{approved})
	r.f.eventually(t, "what was approved is open", func() bool { return open(approved) })
	k.approve(other, "do", definitionOf("do", 1)) // which nobody tells of but the worker
	k.hold <- struct{}{}
	r.f.eventually(t, "the worker is done", func() bool { return open(other) })
	relisted := make(contacted, 1)
	r.e.Contact(approved, true, relisted)
	if err := <-relisted; err != nil || !open(approved) {
		t.Errorf("what was approved is closed again: %v", err)
	}
}

// TestHoldSaysWhatChanged: of a tool that was called a moment ago.
func TestHoldSaysWhatChanged(t *testing.T) {
	k, c := newMemoryKeeper(), newTurncoat()
	r := newRigWith(t, nil, keptBy(k))
	r.e.SetPins(messages.PinsHold)
	r.add("a", &script{answers: c.answer}, nil)
	r.ok("a")
	c.mu.Lock()
	c.world["do"], c.world["late"] = 1, 1
	c.mu.Unlock()
	r.wantResult(r.do("a", "read", doArgs{Do: "changed"}))
	// The listing is not there yet: the calls wait for it.
	changed, fresh := r.start("a", "do", doArgs{}), r.start("a", "late", doArgs{})
	if err := r.wantCode(r.wait(changed), messages.CodeToolDisabled); !strings.Contains(err.Message, "description changed") || !strings.Contains(err.Hint, "metamcp approve a") {
		t.Errorf("%v, hint %q", err, err.Hint)
	}
	r.wait(fresh) // it may have been asked for before it was listed
	r.f.eventually(t, "the new tool is known and held back", func() bool {
		a := r.do("a", "late", doArgs{})
		return a.Err != nil && a.Err.Code == messages.CodeToolDisabled && strings.Contains(a.Err.Message, "did not have it")
	})
	r.wantResult(r.do("a", "twice", doArgs{}))
	k.approve("a", "do", definitionOf("do", 1))
	r.e.PinsChanged([]string{"a"})
	r.f.eventually(t, "the accepted tool can be called", func() bool { return r.do("a", "do", doArgs{}).Err == nil })
	// Under warn the rest can be, too; under hold it cannot be again.
	r.e.SetPins(messages.PinsWarn)
	r.f.eventually(t, "nothing is held back any more", func() bool { return r.do("a", "late", doArgs{}).Err == nil })
	r.e.SetPins(messages.PinsHold)
	r.f.eventually(t, "it is held back again", func() bool { return r.do("a", "late", doArgs{}).Err != nil })
	r.e.SetPins(messages.PinsOff)
	r.f.eventually(t, "nothing is compared", func() bool { return r.do("a", "late", doArgs{}).Err == nil })
}

// TestHoldCountsAtOnce: what warn has told is closed from when the change of the mode is
// said to be done, also where the disk was not asked anew yet.
func TestHoldCountsAtOnce(t *testing.T) {
	k, c := newMemoryKeeper(), newTurncoat()
	r := newRigWith(t, nil, keptBy(k))
	r.e.SetPins(messages.PinsWarn)
	r.add("a", &script{answers: c.answer}, nil)
	r.ok("a")
	c.mu.Lock()
	c.world["do"] = 1
	c.mu.Unlock()
	r.wantResult(r.do("a", "read", doArgs{Do: "changed"}))
	r.f.eventually(t, "the change is known", func() bool {
		s := r.e.Catalog().Server("a")
		return s != nil && s.Review().Of("do") != nil
	})
	r.wantResult(r.do("a", "do", doArgs{}))
	k.mu.Lock()
	defer k.mu.Unlock()
	r.e.SetPins(messages.PinsHold)
	r.apply(Change{})
	r.wantCode(r.do("a", "do", doArgs{}), messages.CodeToolDisabled)
	r.wantResult(r.do("a", "read", doArgs{}))
	r.e.SetPins(messages.PinsWarn)
	r.apply(Change{})
	r.wantResult(r.do("a", "do", doArgs{}))
}

// TestHoldDoesNotStarve: a child that announces changes all the time is called
// all the same.
func TestHoldDoesNotStarve(t *testing.T) {
	r := newRigWith(t, nil, keptBy(newMemoryKeeper()))
	r.e.SetPins(messages.PinsHold)
	r.add("a", &script{restless: true}, nil)
	for range 20 {
		r.ok("a")
	}
}

// TestHoldWithoutListing: a child that does not list its tools gets no call.
func TestHoldWithoutListing(t *testing.T) {
	r := newRigWith(t, nil, keptBy(newMemoryKeeper()))
	r.e.SetPins(messages.PinsHold)
	r.add("a", nil, nil)
	r.add("b", &script{pages: []string{usualTools, "broken"}}, nil)
	r.ok("a")
	r.ok("b")
	// Its tools are known, and its next child breaks the listing.
	r.f.living("b")[0].crash()
	r.f.eventually(t, "b has ended", func() bool { return len(r.f.living("b")) == 0 })
	r.f.mu.Lock()
	r.f.scripts["b"] = &script{refuse: []string{methodToolsList}}
	r.f.mu.Unlock()
	err := r.wantCode(r.do("b", "do", doArgs{}), messages.CodeConnection)
	if !strings.Contains(err.Message, "held back") || !err.Retryable {
		t.Errorf("%v", err)
	}
	if n := len(r.f.lines("b", methodToolsCall)); n != 1 {
		t.Errorf("b got %d calls, want the first alone", n)
	}
}

// TestFailedListingRefusesNobodyWhoOnlyWaitsForHisTurn: what the child lists was compared
// before, and a call that has room only once another one ends is none of a later listing's.
func TestFailedListingRefusesNobodyWhoOnlyWaitsForHisTurn(t *testing.T) {
	r := newRigWith(t, nil, keptBy(newMemoryKeeper()))
	r.e.SetPins(messages.PinsHold)
	var g gatekeeper
	calls := g.script().answers
	lists := 0
	r.add("a", &script{answers: func(l *fakeLink, m rpcLine) bool {
		if m.Method == methodToolsList {
			if lists++; lists > 1 {
				l.refuse(m.ID, "busy")
				return true
			}
		}
		return calls(l, m)
	}}, func(s *messages.ServerSpec) { s.MaxInFlight = 1 })
	r.ok("a")
	running := r.start("a", "do", doArgs{Do: "hold running"})
	r.f.eventually(t, "the child has the call", func() bool { return g.count("running") == 1 })
	queued := r.start("a", "do", doArgs{})
	refreshed := make(contacted, 1)
	r.e.Contact("a", true, refreshed)
	select {
	case <-refreshed:
	case <-time.After(soon):
		t.Fatal("the listing did not end")
	}
	g.let()
	r.wantResult(r.wait(running))
	r.wantResult(r.wait(queued))
	if n := len(r.f.lines("a", methodToolsList)); n != 2 {
		t.Errorf("%d listings, want one that fails", n)
	}
}

// TestHoldWhereTheKeeperBreaks: nothing passes, and nobody waits for ever.
func TestHoldWhereTheKeeperBreaks(t *testing.T) {
	k := newMemoryKeeper()
	k.panics = true
	r := newRigWith(t, nil, keptBy(k))
	r.e.SetPins(messages.PinsHold)
	r.add("a", nil, nil)
	if a := r.do("a", "do", doArgs{}); a.Err == nil || !strings.Contains(a.Err.Message, "could not be looked up") {
		t.Errorf("want a refusal, got %s, %v", a.Result, a.Err)
	}
	if n := len(r.f.lines("a", methodToolsCall)); n != 0 {
		t.Errorf("a got %d calls", n)
	}
	k.mu.Lock()
	k.panics = false
	k.mu.Unlock()
	r.ok("a")
}

// TestHoldWhereAReviewBreaks: at the index, which compares the first listing and a
// later one, and at the connection. Nothing passes, and nobody waits for ever.
func TestHoldWhereAReviewBreaks(t *testing.T) {
	rigOf := func(t *testing.T) (*rig, *memoryKeeper) {
		t.Helper()
		k := newMemoryKeeper()
		r := newRigWith(t, nil, keptBy(k))
		r.e.SetPins(messages.PinsHold)
		r.add("a", nil, nil)
		return r, k
	}
	for broken, where := range map[int32]string{1: "index", 2: "connection"} {
		t.Run(where, func(t *testing.T) {
			r, k := rigOf(t)
			k.reviews.Store(broken)
			if err := r.wantCode(r.do("a", "do", doArgs{}), messages.CodeConnection); !err.Retryable {
				t.Errorf("%+v", err)
			}
			if n := len(r.f.lines("a", methodToolsCall)); n != 0 {
				t.Errorf("a got %d calls", n)
			}
			r.ok("a")
			if n := r.f.started("a"); n != 1 {
				t.Errorf("%d starts, want 1", n)
			}
		})
	}
	t.Run("later", func(t *testing.T) {
		r, k := rigOf(t)
		r.ok("a")
		k.reviews.Store(1)
		for _, breaks := range []bool{true, false} {
			port := make(contacted, 1)
			r.e.Contact("a", true, port)
			limit := time.NewTimer(soon)
			select {
			case err := <-port:
				if (err != nil) != breaks {
					t.Errorf("breaks: %v, %v", breaks, err)
				}
			case <-limit.C:
				t.Fatal("no answer to who wanted the tools")
			}
			limit.Stop()
		}
		r.ok("a")
	})
}

// TestCallThatEndsAtTheGate: it leaves nothing behind, so that its instance is idle
// while its tools are still being compared, and afterwards.
func TestCallThatEndsAtTheGate(t *testing.T) {
	for name, end := range map[messages.Code]func(r *rig, c *messages.Call){
		messages.CodeCancelled: func(r *rig, c *messages.Call) {
			r.e.Ask(c)
			r.e.Cancel(c, "enough")
		},
		messages.CodeExecutionTimeout: func(r *rig, c *messages.Call) {
			c.Deadline = time.Now().Add(5 * time.Millisecond)
			r.e.Ask(c)
		},
	} {
		t.Run(string(name), func(t *testing.T) {
			k := newMemoryKeeper()
			k.hold = make(chan struct{})
			compare := sync.OnceFunc(func() { close(k.hold) })
			defer compare()
			r := newRigWith(t, nil, keptBy(k))
			r.e.SetPins(messages.PinsHold)
			r.add("a", nil, nil)
			listed := make(contacted, 1)
			r.e.Contact("a", false, listed)
			r.f.eventually(t, "the index has the listing", func() bool { return r.trace.count("transition", "ACTIVE → IDLE") == 1 })
			p := newPort()
			r.ports = append(r.ports, p)
			call := &messages.Call{ID: lastCall.Add(1), Server: "a", Method: "prompts/list", Cancelled: &atomic.Bool{}, Reply: p}
			end(r, call)
			err := r.wantCode(r.wait(&pendingCall{p, call}), name)
			if name == messages.CodeExecutionTimeout && (!strings.Contains(err.Message, "held back") || strings.Contains(err.Hint, "startupTimeoutMs")) {
				t.Errorf("it does not say what the call waited for: %s %s", err.Message, err.Hint)
			}
			r.settled(1)
			compare()
			if err := <-listed; err != nil {
				t.Error(err)
			}
			r.settled(1)
			r.ok("a")
		})
	}
}

// TestCallsPassAGateThatOpens: nobody holds tools back any more when the listing ends
// that they wait for, however it ends.
func TestCallsPassAGateThatOpens(t *testing.T) {
	for name, answer := range map[string]func(l *fakeLink, id json.RawMessage){
		"listed":  func(l *fakeLink, id json.RawMessage) { l.answer(id, usualTools) },
		"refused": func(l *fakeLink, id json.RawMessage) { l.refuse(id, "not now") },
	} {
		t.Run(name, func(t *testing.T) {
			lists, asked := 0, make(chan func(), 1)
			r := newRigWith(t, nil, keptBy(newMemoryKeeper()))
			r.e.SetPins(messages.PinsHold)
			r.add("a", &script{answers: func(l *fakeLink, m rpcLine) bool {
				if m.Method != methodToolsList {
					return false
				}
				if lists++; lists == 1 {
					return false
				}
				asked <- func() { answer(l, m.ID) }
				return true
			}}, nil)
			r.wantResult(r.do("a", "do", doArgs{Do: "changed"}))
			calls := []*pendingCall{r.start("a", "do", doArgs{}), r.start("a", "do", doArgs{})}
			end := <-asked
			r.e.SetPins(messages.PinsWarn)
			r.f.eventually(t, "nothing is held back", func() bool { return !r.e.view.Holding() })
			end()
			for _, p := range calls {
				r.wantResult(r.wait(p))
			}
			r.settled(1)
		})
	}
}

// TestRecordingIsPaced: a server that changes its tools with every listing does
// not keep the disk busy.
func TestRecordingIsPaced(t *testing.T) {
	k, c := newMemoryKeeper(), newTurncoat()
	r := newRigWith(t, nil, keptBy(k))
	r.e.SetPins(messages.PinsWarn)
	r.add("a", &script{answers: c.answer}, nil)
	r.ok("a")
	for v := range 30 {
		c.mu.Lock()
		c.world["do"] = v + 1
		c.mu.Unlock()
		r.wantResult(r.do("a", "read", doArgs{Do: "changed"}))
		port := make(contacted, 1)
		r.e.Contact("a", true, port)
		<-port
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	const most = 5
	if k.keeps > most {
		t.Errorf("it was recorded %d times", k.keeps)
	}
}

type contacted chan *messages.Error

// Contacted implements messages.ContactPort.
func (c contacted) Contacted(_ uint64, err *messages.Error) { c <- err }
