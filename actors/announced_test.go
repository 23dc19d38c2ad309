package actors

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// grower is a server each child of which has one tool more whenever it is called with
// "changed", which it says before it answers. From then on "typed" wants a string.
type grower struct {
	mu    sync.Mutex
	grown map[*fakeLink]int
	// held takes the next listing; it is answered, as it was when it was asked for, once
	// somebody reads that from it. nil: no listing is held.
	held     chan func()
	restless bool
}

func (g *grower) script() *script {
	g.grown = map[*fakeLink]int{}
	return &script{answers: g.answer}
}

func (g *grower) answer(l *fakeLink, m rpcLine) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case m.Method == methodToolsCall && strings.Contains(m.raw, `"do":"changed"`):
		g.grown[l]++
	case m.Method == methodToolsList:
		if g.restless {
			l.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		}
		list, id := toolsOf(g.grown[l]), m.ID
		if g.held != nil {
			g.held <- func() { l.answer(id, list) }
			g.held = nil
			return true
		}
		l.answer(id, list)
		return true
	}
	return false
}

func toolsOf(grown int) string {
	n := "integer"
	if grown > 0 {
		n = "string"
	}
	tools := []string{`{"name":"do","inputSchema":{"type":"object"}}`, `{"name":"typed","inputSchema":{"type":"object","properties":{"n":{"type":"` + n + `"}}}}`}
	for i := range grown {
		tools = append(tools, fmt.Sprintf(`{"name":"new%d","inputSchema":{"type":"object"}}`, i+1))
	}
	return `{"tools":[` + strings.Join(tools, ",") + `]}`
}

// hold has the next listing wait for the function that comes.
func (g *grower) hold() <-chan func() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = make(chan func(), 1)
	return g.held
}

// contactCount counts the contacts that breakers have dealt with.
type contactCount struct {
	*recorder
	n atomic.Int64
}

func (w *contactCount) Message(m *kernel.Record) {
	if m.Type == "Contact" {
		w.n.Add(1)
	}
}

// grow has a server announce one tool more.
func (r *rig) grow(server string) {
	r.t.Helper()
	r.wantResult(r.do(server, "do", doArgs{Do: "changed"}))
}

// withArgs gives a call arguments of its own.
func withArgs(args string) func(c *messages.Call) {
	return func(c *messages.Call) { c.Args = json.RawMessage(args) }
}

// TestAnnouncedToolIsCalledAtOnce: who has the answer of a server that has announced a
// change before it can call what is new, also in the pause before the next listing.
func TestAnnouncedToolIsCalledAtOnce(t *testing.T) {
	r := newRig(t, nil)
	g := &grower{}
	r.add("a", g.script(), nil)
	r.ok("a")
	r.wantCode(r.do("a", "typed", doArgs{}, withArgs(`{"n":"x"}`)), messages.CodeValidation)
	for n := range 4 {
		r.grow("a")
		if n == 1 {
			r.wantCode(r.do("a", "typed", doArgs{}, withArgs(`{"n":1}`)), messages.CodeValidation)
		}
		r.wantResult(r.do("a", "new"+strconv.Itoa(n+1), doArgs{}))
		r.wantResult(r.do("a", "typed", doArgs{}, withArgs(`{"n":"x"}`)))
	}
	before := len(r.f.lines("a", methodToolsList))
	for range 5 {
		r.wantCode(r.do("a", "new5", doArgs{}), messages.CodeToolNotFound)
	}
	// One that was due may have come.
	if after := len(r.f.lines("a", methodToolsList)); after > before+1 {
		t.Errorf("it was listed %d times for a tool that it has not", after-before)
	}
}

// TestNewSchemaHoldsAtOnce: what no longer fits is refused, and what fits now is not, by the
// listing that the server has announced and not by the one before.
func TestNewSchemaHoldsAtOnce(t *testing.T) {
	r := newRig(t, nil)
	g := &grower{}
	r.add("a", g.script(), nil)
	r.ok("a")
	r.grow("a")
	r.wantResult(r.do("a", "typed", doArgs{}, withArgs(`{"n":"x"}`)))
}

// TestAnnouncedWhileItIsListed: a listing that had begun before a change was announced says
// nothing of what it brought.
func TestAnnouncedWhileItIsListed(t *testing.T) {
	r := newRig(t, nil)
	g := &grower{}
	r.add("a", g.script(), nil)
	r.ok("a")
	seen := &contactCount{recorder: r.trace}
	r.e.sys.SetTracer(seen)
	held := g.hold()
	r.grow("a")
	answer := <-held
	r.grow("a")
	p := r.start("a", "new2", doArgs{})
	r.f.eventually(t, "its server is asked", func() bool { return seen.n.Load() == 1 })
	answer()
	r.wantResult(r.wait(p))
}

// TestWrongCallsOfARestlessServer: however many there are, the server is listed for all of
// them together, and they are refused though it announces the next change meanwhile.
func TestWrongCallsOfARestlessServer(t *testing.T) {
	r := newRig(t, nil)
	g := &grower{restless: true}
	r.add("a", g.script(), nil)
	r.ok("a")
	seen := &contactCount{recorder: r.trace}
	r.e.sys.SetTracer(seen)
	held := g.hold() // one that is due, or what the first wrong call brings about
	r.grow("a")
	const wrong = 30
	calls := []*pendingCall{r.start("a", "nothere", doArgs{})}
	answer := <-held
	before := len(r.f.lines("a", methodToolsList))
	for len(calls) < wrong {
		calls = append(calls, r.start("a", "nothere", doArgs{}))
	}
	r.f.eventually(t, "its server is asked", func() bool { return seen.n.Load() == wrong })
	answer()
	for _, p := range calls {
		r.wantCode(r.wait(p), messages.CodeToolNotFound)
	}
	if n := len(r.f.lines("a", methodToolsList)) - before; n > 3 {
		t.Errorf("it was listed %d times for %d wrong calls", n, wrong)
	}
}

// TestAnnouncedByOneOfSeveral: the child that has announced a change lists, and no other.
func TestAnnouncedByOneOfSeveral(t *testing.T) {
	r := newRig(t, nil)
	g := &grower{}
	r.add("a", g.script(), func(s *messages.ServerSpec) { s.Scope = messages.ScopeSession })
	first, second := r.session(), r.session()
	r.wantResult(r.wait(r.by(first, "a", "echo")))
	r.wantResult(r.wait(r.by(second, "a", "echo")))
	for n := range 4 {
		r.wantResult(r.wait(r.by(second, "a", "changed")))
		p := newPort()
		c := &messages.Call{ID: lastCall.Add(1), Server: "a", Method: methodToolsCall, Tool: "new" + strconv.Itoa(n+1), Args: json.RawMessage(`{}`), Reply: p}
		r.mu.Lock()
		r.ports = append(r.ports, p)
		r.mu.Unlock()
		second.Call(c)
		r.wantResult(r.wait(&pendingCall{p, c}))
	}
	if n := len(r.f.lines("a", methodToolsList)); n > 15 {
		t.Errorf("they were listed %d times", n)
	}
}
