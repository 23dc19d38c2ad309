package actors

import (
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// A child writes its answers one after the other: who asks for many large ones makes
// others wait for theirs. So calls that are expected to have large answers are given
// to a child by their size, and others, which are most, without that.
const (
	// heavyWindow is how many bytes of large answers a child is asked for at once,
	// and heavyShare how many of them for one client. One call is always given.
	heavyWindow = 8 << 20
	heavyShare  = heavyWindow - heavyWindow/4
	// heavy is the size from which an answer counts.
	heavy = 16 << 10
	// unknownWeight stands for the answer of a tool that has not answered yet, half of
	// it where that takes slowTool, and so on.
	unknownWeight = heavyWindow / 8
	slowTool      = 250 * time.Millisecond
	// maxSlowness is how many times lighter the answers of a slow tool are, since
	// they do not come all at once.
	maxSlowness = 8
	// maxHalved is when unknownWeight counts no more.
	maxHalved = 7
	// maxWeighed is how many tools of a child are remembered.
	maxWeighed = 4096
)

// weights counts what a child has been asked for.
type weights struct {
	tools    map[string]*toolWeight
	inflight int            // expected bytes
	of       map[uint64]int // of them, by client, which is messages.Call.Of
	waiting  bool           // a large answer comes next, and waits for room
	timer    *kernel.Timer
	gen      uint64
}

// toolWeight is what is known of the answers of a tool.
type toolWeight struct {
	known    bool // it has answered
	halved   int  // how often unknownWeight was halved until then
	bytes    int  // of its larger answers; 0: they are small
	quickest time.Duration
}

// weighDue says that tools which have not answered yet may get more calls.
type weighDue struct{ gen uint64 }

// expected is how many bytes an answer counts for.
func (t *toolWeight) expected() int {
	switch {
	case t.known:
		slowness := min(1+t.quickest/slowTool, maxSlowness)
		return min(t.bytes/int(slowness), heavyShare)
	case unknownWeight>>t.halved < heavy:
		return 0
	default:
		return unknownWeight >> t.halved
	}
}

// answered learns from an answer.
func (t *toolWeight) answered(bytes int, took time.Duration) {
	t.bytes -= t.bytes / 8
	if bytes >= heavy {
		t.bytes = max(t.bytes, bytes)
		if t.quickest == 0 || took < t.quickest {
			t.quickest = took
		}
	} else if t.bytes < heavy {
		t.bytes = 0
	}
	t.known = true
}

// tool is what is known of the tool that a call is of.
func (w *weights) tool(call *messages.Call) *toolWeight {
	name := call.What()
	t := w.tools[name]
	if t == nil {
		if w.tools == nil || len(w.tools) >= maxWeighed {
			w.tools = map[string]*toolWeight{}
		}
		t = &toolWeight{}
		w.tools[name] = t
	}
	return t
}

// enter counts a call that the child gets, and leave one that it has no more.
func (w *weights) enter(p *pending) {
	p.tool = w.tool(p.call)
	w.count(p, p.tool.expected())
}

func (w *weights) leave(p *pending) { w.count(p, 0) }

// count makes a call in flight count for so many bytes.
func (w *weights) count(p *pending, bytes int) {
	if bytes == p.weight {
		return
	}
	if w.of == nil {
		w.of = map[uint64]int{}
	}
	client := p.call.Of()
	w.inflight += bytes - p.weight
	w.of[client] += bytes - p.weight
	if w.of[client] == 0 {
		delete(w.of, client)
	}
	p.weight = bytes
}

func (w *weights) clear() {
	clear(w.of)
	w.inflight, w.waiting = 0, false
	w.timer.Stop()
	w.gen++
	w.timer = nil
}

// weightFits says whether there is room for the answer to a call: within the share of
// its client, and at the child. What nobody knows is no reason to wait where nobody
// else is there.
func (c *connection) weightFits(call *messages.Call) (own, all bool) {
	t := c.weights.tool(call)
	if !t.known && c.deps.alone() {
		return true, true
	}
	bytes := t.expected()
	own = bytes == 0 || c.weights.of[call.Of()]+bytes <= heavyShare
	all = bytes == 0 || c.weights.inflight+bytes <= heavyWindow
	if (!own || !all) && !t.known && c.weights.timer == nil {
		c.weights.gen++
		c.weights.timer = c.ctx.After(slowTool, &weighDue{c.weights.gen})
	}
	return own, all
}

// light says whether the answer to a call does not count.
func (c *connection) light(call *messages.Call) bool { return c.weights.tool(call).expected() == 0 }

// onWeighDue gives more calls to tools that have not answered yet.
func (c *connection) onWeighDue(ctx *kernel.Context, m *weighDue) {
	w := &c.weights
	if m.gen != w.gen {
		return
	}
	w.timer = nil
	for _, t := range w.tools {
		if !t.known && t.halved < maxHalved {
			t.halved++
		}
	}
	for _, p := range c.inflight {
		if !p.tool.known {
			w.count(p, p.tool.expected())
		}
	}
	c.nextTurn(ctx)
}
