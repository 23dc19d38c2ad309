package actors

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// TestClientThatDoesNotReadTakesNoPlace: what no child has of its calls waits in its
// session, and the server is idle; all of it is carried out once the client reads.
func TestClientThatDoesNotReadTakesNoPlace(t *testing.T) {
	g := &gatekeeper{}
	r := newRig(t, nil)
	r.add("x", g.script(), func(s *messages.ServerSpec) { s.MaxInFlight = 1 })
	var full atomic.Bool
	deaf, other := r.session(), r.session()
	deaf.HoldWhile(full.Load)
	first := r.by(deaf, "x", "hold deaf")
	r.f.eventually(t, "the child has it", func() bool { return g.count("deaf") == 1 })
	var waiting []*pendingCall
	for range 5 { // at the connection
		waiting = append(waiting, r.by(deaf, "x", "echo"))
	}
	full.Store(true)
	waiting = append(waiting, r.by(deaf, "x", "echo")) // in the session, from the beginning
	g.let()
	r.wantResult(r.wait(first))
	r.settled(1)
	r.wantResult(r.wait(r.by(other, "x", "echo")))
	given := r.by(deaf, "x", "echo")
	deaf.Cancel(given.call.ID, "not wanted")
	r.wantCode(r.wait(given), messages.CodeCancelled)
	for i, p := range waiting {
		if p.answered() {
			t.Fatalf("call %d was answered while the client did not read", i)
		}
	}
	full.Store(false)
	deaf.Room()
	for _, p := range waiting {
		r.wantResult(r.wait(p))
	}
	r.settled(1)
}

// TestHeldCallsEndWithTheirSession: nobody waits for ever.
func TestHeldCallsEndWithTheirSession(t *testing.T) {
	r := newRig(t, nil)
	r.add("x", nil, nil)
	deaf := r.session()
	deaf.HoldWhile(func() bool { return true })
	p := r.by(deaf, "x", "echo")
	deaf.Room()
	deaf.Close()
	r.wantCode(r.wait(p), messages.CodeCancelled)
	if n := len(r.f.lines("x", methodToolsCall)); n != 0 {
		t.Errorf("the server got %d calls", n)
	}
}

// weighed is a connection whose tools have answered: "large" with a mebibyte, "huge"
// with a hundred, and "small".
func weighed() (c *connection, call func(session uint64, tool string) *messages.Call) {
	c = &connection{spec: &messages.ServerSpec{}, inflight: map[uint64]*pending{}}
	id := uint64(0)
	call = func(session uint64, tool string) *messages.Call {
		id++
		return &messages.Call{Meta: messages.Meta{Session: session}, ID: id, Tool: tool}
	}
	for tool, bytes := range map[string]int{"large": 1 << 20, "huge": 100 << 20, "small": 100} {
		c.weights.tool(call(1, tool)).answered(bytes, time.Millisecond)
	}
	return c, call
}

func (c *connection) take(t *testing.T, call *messages.Call) {
	t.Helper()
	if !c.fits(call) {
		t.Fatalf("a call of %s of session %d does not fit", call.Tool, call.Session)
	}
	c.enter(&pending{call: call})
}

func TestLargeAnswersAreAskedForByTheirSize(t *testing.T) {
	c, call := weighed()
	for range heavyShare >> 20 {
		c.take(t, call(1, "large"))
	}
	if c.fits(call(1, "large")) {
		t.Error("a client gets more than its share")
	}
	for range (heavyWindow - heavyShare) >> 20 {
		c.take(t, call(2, "large"))
	}
	if c.fits(call(3, "large")) {
		t.Error("more is asked for than the child may have")
	}
	c.take(t, call(1, "small"))
	c.take(t, call(3, "small"))

	// Two wait; the one goes next whose client had no turn yet, once there is room.
	c.waiters = []*messages.Call{call(1, "large"), call(3, "large")}
	if at := c.nextWaiter(); at != -1 {
		t.Errorf("waiter %d goes", at)
	}
	c.leave(1 + 3) // the first of session 1, behind those that taught
	if at := c.nextWaiter(); at != 1 {
		t.Errorf("waiter %d goes, want that of session 3", at)
	}
	for id := range c.inflight {
		c.leave(id)
	}
	if c.weights.inflight != 0 || len(c.weights.of) != 0 {
		t.Errorf("%d bytes are counted, %v", c.weights.inflight, c.weights.of)
	}
}

// TestHugeAnswerHasItsTurn: many large ones do not pass it for ever, small ones do.
func TestHugeAnswerHasItsTurn(t *testing.T) {
	c, call := weighed()
	for range 4 {
		c.take(t, call(1, "large"))
	}
	c.waiters = []*messages.Call{call(2, "huge"), call(1, "large"), call(1, "small")}
	if c.fits(c.waiters[0]) {
		t.Fatal("it fits")
	}
	if at := c.nextWaiter(); at != -1 {
		t.Errorf("waiter %d passes the huge one", at)
	}
	if c.fits(call(3, "large")) {
		t.Error("a large one that comes passes the huge one")
	}
	c.take(t, call(3, "small"))
	gone := c.waiters
	c.waiters = nil // it was given up
	if !c.fits(call(3, "large")) {
		t.Error("a call waits for one that is gone")
	}
	c.waiters = gone
	for id, p := range c.inflight {
		if p.call.Tool == "large" && p.weight > 0 && c.weights.inflight > heavyWindow-heavyShare {
			c.leave(id)
		}
	}
	if at := c.nextWaiter(); at != 0 {
		t.Errorf("waiter %d goes, want the huge one", at)
	}
}

// TestToolThatHasNotAnswered: of a tool that nobody knows some calls are given first,
// and all once it is seen to be slow.
func TestToolThatHasNotAnswered(t *testing.T) {
	g := &gatekeeper{}
	r := newRig(t, nil)
	r.add("x", g.script(), nil)
	greedy := r.session()
	r.session() // somebody might wait
	const all = 100
	began := time.Now()
	var calls []*pendingCall
	for range all {
		calls = append(calls, r.by(greedy, "x", "hold greedy"))
	}
	r.f.eventually(t, "the first are there", func() bool { return g.count("greedy") >= heavyShare/unknownWeight })
	if n := g.count("greedy"); n > heavyShare/unknownWeight && time.Since(began) < slowTool {
		t.Errorf("%d calls were given at once", n)
	}
	r.f.eventually(t, "all are there", func() bool { return g.count("greedy") == all })
	for range all {
		g.let()
	}
	for _, p := range calls {
		r.wantResult(r.wait(p))
	}
}

// TestToolThatHasNotAnsweredItsOnlyClient: no call waits for others that nobody makes;
// who comes later finds what is under way counted.
func TestToolThatHasNotAnsweredItsOnlyClient(t *testing.T) {
	c, call := weighed()
	alone := true
	c.deps = &connectionDeps{alone: func() bool { return alone }}
	c.weights.timer = &kernel.Timer{} // it is set already
	for range 100 {
		c.take(t, call(1, "new"))
	}
	alone = false
	if c.fits(call(1, "new")) {
		t.Error("it is given more than its share while somebody is there")
	}
	if c.fits(call(2, "new")) {
		t.Error("the child is asked for more than it may be")
	}
	c.take(t, call(2, "small"))
}

func TestWeightOfAnswers(t *testing.T) {
	var w toolWeight
	if got := w.expected(); got != unknownWeight {
		t.Errorf("nothing is known: %d", got)
	}
	w.answered(1<<20, 2*time.Second)
	if got := w.expected(); got != 1<<20/maxSlowness {
		t.Errorf("a slow one: %d", got)
	}
	w.answered(2<<20, time.Millisecond)
	if got := w.expected(); got != 2<<20 {
		t.Errorf("a quick one: %d", got)
	}
	for range 60 {
		w.answered(10, time.Millisecond)
	}
	if got := w.expected(); got != 0 {
		t.Errorf("small ones for long: %d", got)
	}
}
