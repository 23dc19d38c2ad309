package actors

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// Bounds of what one child asks for.
const (
	// maxAsks bounds the questions of a child that are open at once.
	maxAsks = 256
	// maxCallAsks bounds the questions of one call.
	maxCallAsks = 1000
	// maxStood bounds for how long in all a call's time stands still.
	maxStood = time.Hour
	// AskPatience is how long a client, which is mostly a person, has for one
	// answer where the server has no maxTimeoutMs, or where metamcp itself asks.
	AskPatience = 10 * time.Minute
	// holdPatience is how long a question waits until it is clear whose it is.
	holdPatience = 2 * time.Second
	// maxProgressed bounds how often in a second a child is told how far its clients
	// are with their answers, maxProgressedBytes what it is told at once.
	maxProgressed      = 50
	maxProgressedBytes = 4 << 10
	// maxElicited bounds the elicitations by URL whose end is awaited.
	maxElicited = 128
)

// JSON-RPC errors for what a child asks.
const (
	rpcInvalidRequest = -32600
	rpcNoMethod       = -32601
	rpcInvalidParams  = -32602
	rpcRefused        = -32000
)

// asks is what a child has asked for. A legacy child sends requests while it works
// on calls, and over a pipe nothing says which call a request belongs to: it goes
// to the client whose calls are the only ones there. Where there are others it
// waits until there are none, and from then on such a server works for one client
// at a time.
type asks struct {
	open  map[uint64]*ask // by the number of the question
	byID  map[string]*ask // those of legacy children, by the child's id
	held  []*messages.Frame
	timer *kernel.Timer
	gen   uint64
	// turn is when those who wait for their turn are looked after; turnGen makes
	// earlier alarms void.
	turn    *kernel.Timer
	turnGen uint64
	// told is how often the child was told of progress in the second from second on.
	told   int
	second time.Time
	// elicited are the clients that were sent to a URL, by the id of the elicitation;
	// order is the order in which they were.
	elicited map[string]elicited
	order    []string
}

// elicited is the client that was sent to a URL for a call. It may be kept for long
// after that, and so without the call and its arguments.
type elicited struct {
	client messages.ClientPort
	call   uint64
}

// ask is one question that is with a client.
type ask struct {
	q     *messages.Question
	p     *pending
	id    json.RawMessage // of the child's request; nil: it is one of inputRequests
	key   string          // there
	since time.Time
	timer *kernel.Timer
	// holds are the calls whose time stands still meanwhile: p, and where p is a
	// guess all that the client had there.
	holds   []*pending
	guessed bool
}

type (
	askDue     struct{ question uint64 }
	heldAskDue struct{ gen uint64 }
	// askPort takes a client's answer to a connection's question.
	askPort struct {
		sys  *kernel.System
		self *kernel.PID
	}
)

// Answered implements messages.QuestionPort.
func (p askPort) Answered(a *messages.QuestionAnswer) { p.sys.Send(p.self, a) }

// Progressed implements messages.ProgressedPort.
func (p askPort) Progressed(m *messages.QuestionProgress) { p.sys.Send(p.self, m) }

// drop forgets what no client has been asked yet: the child is gone.
func (a *asks) drop() {
	a.timer.Stop()
	a.gen++
	a.held = nil
	a.turn.Stop()
	a.turn = nil
	a.turnGen++
	clear(a.elicited)
	a.order = nil
}

// onAsk takes a request of the child's.
func (c *connection) onAsk(ctx *kernel.Context, f *messages.Frame) {
	switch {
	case f.Method != messages.MethodElicit && f.Method != messages.MethodSample && f.Method != messages.MethodRoots:
		c.refuseAsk(ctx, f, rpcNoMethod, "metamcp does not pass "+c.deps.beginning([]byte(f.Method))+" on to its client")
		return
	case c.hs.era == messages.EraModern:
		c.refuseAsk(ctx, f, rpcNoMethod, "a server of this protocol asks with a result that needs input, not with requests")
		return
	case c.asks.byID[string(f.ID)] != nil:
		c.refuseAsk(ctx, f, rpcInvalidRequest, "another request with this id is open; use each id once")
		return
	case len(c.asks.open)+len(c.asks.held) >= maxAsks:
		c.refuseAsk(ctx, f, rpcRefused, strconv.Itoa(maxAsks)+" questions are open already; wait for answers")
		return
	}
	p, several := c.callOf(f)
	switch {
	case several:
		c.asker.Store(true)
		c.holdAsk(ctx, f)
	case p == nil:
		c.refuseAsk(ctx, f, rpcRefused, "there is no call in flight whose client could be asked")
	default:
		if f.Related == nil {
			c.asker.Store(true)
		}
		c.askFor(ctx, p, f)
	}
}

// callOf finds the call that the child says something for: where the transport does
// not tell, the newest of the only client whose calls the child has, and of them one
// by which that client can be reached. several: they are of more than one.
func (c *connection) callOf(f *messages.Frame) (p *pending, several bool) {
	if f.Related != nil {
		if id, ok := messages.ParseRequestID(f.Related); ok {
			p = c.withChild(id)
		}
		return p, false
	}
	for _, other := range c.inflight {
		switch {
		case p != nil && !sameClient(p.call, other.call):
			return nil, true
		case p == nil || reachable(other) && !reachable(p),
			other.call.ID > p.call.ID && reachable(other) == reachable(p):
			p = other
		}
	}
	return p, false
}

// reachable says whether the client that made a call can be told and asked things.
func reachable(p *pending) bool { return p.call.Client != nil }

// sameClient says whether two calls are certainly of one client.
func sameClient(a, b *messages.Call) bool {
	return a.Session == b.Session && (!a.Shared || a.Trace == b.Trace)
}

// askFor puts the child's request to the client of p.
func (c *connection) askFor(ctx *kernel.Context, p *pending, f *messages.Frame) {
	ctx.Correlate(p.call.Trace)
	if code, why := c.mayAsk(p, f.Method, f.Params); code != 0 {
		c.refuseAsk(ctx, f, code, why)
		return
	}
	a := c.newAsk(ctx, p, f.Method, f.Params)
	a.id, a.guessed = f.ID, f.Related == nil
	if a.guessed {
		for _, other := range c.inflight {
			if other != p {
				a.hold(other)
			}
		}
	}
	if c.asks.byID == nil {
		c.asks.byID = map[string]*ask{}
	}
	c.asks.byID[string(f.ID)] = a
	c.rememberElicited(p.call, elicitationID(f.Params))
	ctx.Contain(func() { p.call.Client.Ask(p.call.ID, []*messages.Question{a.q}) })
}

// newAsk opens a question; the caller sends it.
func (c *connection) newAsk(ctx *kernel.Context, p *pending, method string, params json.RawMessage) *ask {
	patience := c.spec.MaxTimeout
	if patience <= 0 {
		patience = AskPatience
	}
	a := &ask{p: p, since: time.Now(), q: &messages.Question{
		ID: c.deps.asked.Add(1), Method: method, Params: params, Reply: askPort{c.sys, c.self},
	}}
	a.timer = ctx.After(patience, &askDue{a.q.ID})
	if c.asks.open == nil {
		c.asks.open = map[uint64]*ask{}
	}
	c.asks.open[a.q.ID] = a
	c.lookAfterTurns(ctx)
	a.hold(p)
	p.asked++
	p.asks = append(p.asks, a)
	if ctx.Tracing() {
		ctx.Event("asked", method, p.call.Trace)
	}
	return a
}

// hold lets the time of a call stand still for the question.
func (a *ask) hold(p *pending) {
	if p.asking == 0 {
		p.paused = time.Now()
		p.tellStanding(true)
	}
	p.asking++
	a.holds = append(a.holds, p)
}

// mayAsk says why a client is not asked; 0: it is.
func (c *connection) mayAsk(p *pending, method string, params json.RawMessage) (code int, why string) {
	if p.asked >= maxCallAsks {
		return rpcRefused, "one call may ask its client " + strconv.Itoa(maxCallAsks) + " questions at most"
	}
	if params != nil && !isObject(params) {
		return rpcInvalidParams, "the params of " + method + " are not an object"
	}
	can := messages.ClientCan{}
	if p.call.Client != nil {
		can = p.call.Can
	}
	allowed := c.spec.Asks
	var q struct {
		Mode  string          `json:"mode"`
		Tools json.RawMessage `json:"tools"`
	}
	if params != nil && json.Unmarshal(params, &q) != nil {
		return rpcInvalidParams, "the params of " + method + " are not understood"
	}
	lacks := func(what string, clients, setting bool) (int, string) {
		switch {
		case !setting:
			return rpcNoMethod, "the user's configuration does not let this server ask for " + what
		case !clients:
			return rpcNoMethod, "the client of this call cannot be asked for " + what
		}
		return 0, ""
	}
	switch method {
	case messages.MethodElicit:
		if q.Mode == "url" {
			if code, why = lacks("elicitation by URL", can.URL, allowed.URL); code != 0 && can.Form && allowed.Form {
				code = rpcInvalidParams
			}
			return code, why
		}
		if code, why = lacks("elicitation by form", can.Form, allowed.Form); code != 0 && can.URL && allowed.URL {
			code = rpcInvalidParams
		}
		return code, why
	case messages.MethodSample:
		if code, why = lacks("sampling", can.Sampling, allowed.Sampling); code == 0 && q.Tools != nil && string(q.Tools) != "null" {
			if code, why = lacks("sampling with tools", can.SamplingTools, allowed.SamplingTools); code != 0 {
				code = rpcInvalidParams
			}
		}
		return code, why
	case messages.MethodRoots:
		return lacks("its folders (roots)", can.Roots, allowed.Roots)
	}
	return rpcNoMethod, "a client cannot be asked for " + c.deps.beginning([]byte(method))
}

// refuseAsk answers a request of the child's with an error.
func (c *connection) refuseAsk(ctx *kernel.Context, f *messages.Frame, code int, why string) {
	if ctx.Tracing() {
		ctx.Event("child-request", c.deps.beginning([]byte(f.Method))+" refused: "+why, 0)
	}
	c.reply(ctx, f.ID, errorBody(code, why))
}

func errorBody(code int, why string) string { return `"error":` + string(rpcError(code, why)) }

func rpcError(code int, why string) json.RawMessage {
	e := strconv.AppendInt([]byte(`{"code":`), int64(code), 10)
	return append(appendString(append(e, `,"message":`...), why), '}')
}

// close takes a question out of the tables, and lets time run again.
func (c *connection) close(ctx *kernel.Context, a *ask) {
	a.timer.Stop()
	delete(c.asks.open, a.q.ID)
	if a.id != nil {
		delete(c.asks.byID, string(a.id))
	}
	if i := slices.Index(a.p.asks, a); i >= 0 {
		a.p.asks = slices.Delete(a.p.asks, i, i+1)
	}
	for _, p := range a.holds {
		c.goOn(ctx, p)
	}
}

// goOn lets a call's time run again once no question holds it.
func (c *connection) goOn(ctx *kernel.Context, p *pending) {
	if p.asking--; p.asking > 0 {
		return
	}
	p.tellStanding(false)
	d := min(time.Since(p.paused), maxStood-p.stood)
	p.stood += d
	p.deadline, p.limit = p.deadline.Add(d), p.limit.Add(d)
	if c.inflight[p.call.ID] == p {
		c.arm(ctx, p.deadline)
	}
}
