package actors

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// run is one process of a connection, from its start to the end of its tree.
// A connection has one at a time and numbers them, so that what a dead one
// says late is told apart.
type run struct {
	n        uint64
	link     Link // nil until launched
	eof      bool
	eofErr   error
	exit     *messages.Exit
	ending   bool // the ladder runs
	step     int  // of the ladder
	looking  bool // a worker is at the tree
	exitSeen bool // the leader was gone before that worker began
	gone     bool
	patience time.Duration // from the start to the end of the handshake
	startup  *kernel.Timer
	probe    *kernel.Timer
	rung     *kernel.Timer
	after    *kernel.Timer // exitGrace
	started  handover
}

// handover is where the worker that starts a run leaves the link, since its
// message may find the connection stopped.
type handover struct {
	mu        sync.Mutex
	link      Link
	abandoned bool
}

// keep reports whether somebody will look after the link.
func (h *handover) keep(link Link) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.link = link
	return !h.abandoned
}

// abandon returns the link, if there is one; one that comes later is ended by
// the worker that brings it.
func (r *run) abandon() Link {
	r.started.mu.Lock()
	defer r.started.mu.Unlock()
	r.started.abandoned = true
	return r.started.link
}

// handshake is how a run and its connection get to know each other.
//
// Legacy children open with initialize, modern ones with server/discover.
// Every child understands its own era's first message, but some legacy ones
// die of a discover, hang on it, or count it as a fault; so a child of unknown
// era is greeted with initialize, and asked to discover when it refuses that
// or stays silent. What was learned is kept with the catalog entry. Over
// Streamable HTTP nothing dies or hangs, so there the modern message comes first,
// as the protocol wants it, and servers of both eras are spoken to in the newer.
type handshake struct {
	era      messages.Era // what requests are written in
	learned  messages.Era // what the catalog knew
	asked    map[string]bool
	version  string
	name     string
	childVer string
	instr    string
	offers   messages.Offers
	logs     bool              // the child takes the level of its log
	level    messages.LogLevel // that it was told; LogNone: none yet
	repeated bool              // the modern greeting was sent a second time
	refused  map[string]string // what the child said to a greeting that it refused
}

// firstGreeting is the message that opens a run.
func (c *connection) firstGreeting() string {
	switch {
	case c.hs.learned == messages.EraModern, c.hs.learned != messages.EraLegacy && c.spec.Transport == messages.TransportHTTP:
		return methodDiscover
	}
	return methodInitialize
}

func (c *connection) onConnect(ctx *kernel.Context, m *messages.Connect) {
	c.cause = ctx.Correlation()
	c.gauge.Placed.Store(true)
	e := supervision.EventConnect
	if c.state == messages.StateFailed {
		e = supervision.EventRetry
	}
	if c.run != nil && !c.run.gone {
		c.refuse(ctx, e)
		return
	}
	if !c.to(ctx, e) {
		return
	}
	c.proven = false
	c.hs = handshake{learned: m.Era}
	c.gate.reset(c.verdicts)
	c.startRun()
}

func (c *connection) startRun() {
	c.runs++
	r := &run{n: c.runs, patience: c.spec.StartupTimeout}
	c.run = r
	c.hs.asked, c.hs.refused = map[string]bool{}, map[string]string{}
	sys, self, spec, deps := c.sys, c.self, c.spec, c.deps
	ear := &earOf{c: c, run: r.n, server: c.spec.Name}
	n := r.n
	c.sys.Go(func(wctx context.Context) {
		select {
		case deps.starts <- struct{}{}:
			defer func() { <-deps.starts }()
			sys.Send(self, &runStarting{n})
		case <-wctx.Done():
			sys.Send(self, &runLaunched{run: n, err: errors.New("the host is shutting down")})
			return
		}
		link, err := deps.launcher.Launch(spec, deps.launches.Add(1), ear)
		if err == nil && !r.started.keep(link) {
			killTree(link)
			return
		}
		sys.Send(self, &runLaunched{run: n, link: link, err: err})
	}, func(reason any) {
		err := errors.New("starting the server panicked; see the log")
		if reason == any(kernel.ErrShutDown) {
			err = kernel.ErrShutDown
		}
		sys.Send(self, &runLaunched{run: n, err: err})
	})
}

// onStarting begins the startup time: what a start waited for others does not
// count.
func (c *connection) onStarting(ctx *kernel.Context, m *runStarting) {
	if r := c.run; r != nil && m.run == r.n && !r.ending && !c.ready {
		r.startup = ctx.After(r.patience, &startupDue{r.n})
	}
}

func (c *connection) onLaunched(ctx *kernel.Context, m *runLaunched) {
	r := c.run
	if r == nil || m.run != r.n {
		return
	}
	if m.err != nil {
		r.gone = true
		r.startup.Stop()
		if r.ending {
			c.afterGone(ctx)
			return
		}
		c.fail(ctx, messages.Evidence{Err: m.err})
		return
	}
	r.link = m.link
	c.gauge.PID.Store(int64(m.link.Pid()))
	c.gauge.Spawned()
	if ctx.Tracing() {
		if c.spec.Transport == messages.TransportStdio {
			ctx.Event("spawn", "pid "+strconv.Itoa(m.link.Pid()), 0)
		} else {
			ctx.Event("connect", string(c.spec.Transport), 0)
		}
	}
	if r.ending {
		c.climb(ctx)
		return
	}
	if c.state != messages.StateConnecting {
		return
	}
	r.probe = ctx.After(r.patience*2/3, &probeDue{r.n})
	c.greet(ctx, c.firstGreeting())
}

// greet opens the conversation in one era.
func (c *connection) greet(ctx *kernel.Context, method string) {
	if c.hs.asked[method] {
		return
	}
	c.hs.asked[method] = true
	if method == methodDiscover {
		was := c.hs.era
		c.hs.era = messages.EraModern
		c.request(ctx, methodDiscover, nil, c.onDiscovered)
		c.hs.era = was
		return
	}
	c.request(ctx, methodInitialize, c.deps.identity.initializeParams(c.spec.Asks), c.onInitialized)
}

func (c *connection) onInitialized(ctx *kernel.Context, f *messages.Frame) {
	if c.ready || c.state != messages.StateConnecting {
		return
	}
	if !c.welcomed(f.Result) {
		c.greetingRefused(ctx, methodInitialize, methodDiscover, f)
		return
	}
	c.sendInternal(ctx, notificationLine(methodInitialized, nil))
	c.becomeReady(ctx)
}

// welcomed takes what a legacy child says of itself, and says whether it does.
func (c *connection) welcomed(result json.RawMessage) bool {
	var res struct {
		Version string `json:"protocolVersion"`
		Info    struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"serverInfo"`
		Instructions string          `json:"instructions"`
		Capabilities json.RawMessage `json:"capabilities"`
	}
	if !isObject(result) || json.Unmarshal(result, &res) != nil || res.Version == "" {
		return false
	}
	c.hs.era, c.hs.version = messages.EraLegacy, res.Version
	c.hs.logs = logs(res.Capabilities)
	c.hs.name, c.hs.childVer, c.hs.instr = res.Info.Name, res.Info.Version, res.Instructions
	c.hs.offers = messages.OffersOf(res.Capabilities)
	return true
}

// logs says whether capabilities are those of a server that takes the level of its
// log.
func logs(capabilities json.RawMessage) bool {
	var c struct {
		Logging json.RawMessage `json:"logging"`
	}
	return json.Unmarshal(capabilities, &c) == nil && isObject(c.Logging)
}

func (c *connection) onDiscovered(ctx *kernel.Context, f *messages.Frame) {
	if c.ready || c.state != messages.StateConnecting {
		return
	}
	var res struct {
		Versions     []string        `json:"supportedVersions"`
		Instructions string          `json:"instructions"`
		Capabilities json.RawMessage `json:"capabilities"`
		Meta         struct {
			Info struct {
				Name    string `json:"name"`
				Version string `json:"version"`
			} `json:"io.modelcontextprotocol/serverInfo"`
		} `json:"_meta"`
	}
	if !isObject(f.Result) || json.Unmarshal(f.Result, &res) != nil || len(res.Versions) == 0 {
		c.greetingRefused(ctx, methodDiscover, methodInitialize, f)
		return
	}
	c.hs.era, c.hs.version = messages.EraModern, mcp.LATEST_PROTOCOL_VERSION
	c.hs.name, c.hs.childVer, c.hs.instr = res.Meta.Info.Name, res.Meta.Info.Version, res.Instructions
	c.hs.offers = messages.OffersOf(res.Capabilities)
	c.becomeReady(ctx)
}

// greetingRefused tries the other era, waits for its answer if it was tried
// already, or fails the start where both were refused.
func (c *connection) greetingRefused(ctx *kernel.Context, method, other string, f *messages.Frame) {
	said := "an answer without a protocol version"
	if f.Error != nil {
		said = rpcErrorText(f.Error)
	}
	if method == methodDiscover && !c.hs.repeated && offersOurs(f.Error) {
		c.hs.repeated = true
		delete(c.hs.asked, method)
		c.greet(ctx, method)
		return
	}
	c.hs.refused[method] = method + " was refused: " + said
	if _, both := c.hs.refused[other]; both {
		c.fail(ctx, messages.Evidence{Text: c.hs.refused[methodInitialize] + "; " + c.hs.refused[methodDiscover]})
		return
	}
	c.greet(ctx, other)
}

// offersOurs says whether a server refused a version and offers the very one that
// it was asked in: what stands in front of it may have answered, or another part of
// it, so the protocol has clients ask once more.
func offersOurs(raw json.RawMessage) bool {
	const unsupportedVersion = -32022
	var e struct {
		Code int64 `json:"code"`
		Data struct {
			Supported []string `json:"supported"`
		} `json:"data"`
	}
	return json.Unmarshal(raw, &e) == nil && e.Code == unsupportedVersion && slices.Contains(e.Data.Supported, mcp.LATEST_PROTOCOL_VERSION)
}

func (c *connection) onProbeDue(ctx *kernel.Context, m *probeDue) {
	if c.run == nil || m.run != c.run.n || c.run.link == nil || c.ready || c.state != messages.StateConnecting {
		return
	}
	c.greet(ctx, methodDiscover)
	c.greet(ctx, methodInitialize)
}

func (c *connection) onStartupDue(ctx *kernel.Context, m *startupDue) {
	if c.run == nil || m.run != c.run.n || c.ready || c.state != messages.StateConnecting {
		return
	}
	text := "the server did not complete the handshake within " + c.run.patience.String() + " (startupTimeoutMs)"
	// That a server refuses server/discover is normal and explains nothing.
	if said := c.hs.refused[methodInitialize]; said != "" {
		text += "; " + said
	}
	c.fail(ctx, messages.Evidence{Timeout: true, Text: text})
}

// becomeReady passes through ACTIVE: tools/list is the first request, but for the
// subscription to what changes after it.
func (c *connection) becomeReady(ctx *kernel.Context) {
	c.run.startup.Stop()
	c.run.probe.Stop()
	if !c.to(ctx, supervision.EventHandshakeDone) {
		return
	}
	c.ready = true
	clear(c.internal) // the other greeting, where there was one, may have no answer
	c.gauge.Turn()
	ctx.Send(c.parent, &messages.ConnectionReady{Instance: c.instance})
	ctx.Send(c.deps.notices, &childReady{server: c.spec.Name, instance: c.instance, pid: c.self})
	c.listen(ctx)
	c.list(ctx)
	c.serveWaiters(ctx)
	for _, w := range c.waiters { // those for which there is no room yet
		c.boundWait(ctx, w)
	}
}

// onReturnCalls gives back what waits for a start, since others can take it sooner.
func (c *connection) onReturnCalls(ctx *kernel.Context) {
	if c.ready {
		return // it takes them in their turn
	}
	waiting := c.waiters
	c.waiters = nil
	c.handled += uint64(len(waiting))
	for _, w := range waiting {
		ctx.Send(c.parent, &messages.CallReturned{Instance: c.instance, Call: w})
	}
}

// serveWaiters takes up those that wait, one by one, since a call may go back to
// wait. One that the child does not take ends at once, and the end of a call begins
// no round within another.
func (c *connection) serveWaiters(ctx *kernel.Context) {
	if c.turning {
		return
	}
	c.turning = true
	defer func() { c.turning = false }()
	for range len(c.waiters) {
		i := c.nextWaiter()
		if i < 0 {
			return // somebody's share comes free with the end of a call
		}
		w := c.waiters[i]
		if c.asker.Load() && !c.itsTurn(w) {
			return // its turn comes with the end of what others have there
		}
		c.waiters = slices.Delete(c.waiters, i, i+1)
		c.shares.turn(w.Of())
		c.admit(ctx, w)
	}
}

// rpcErrorText is a JSON-RPC error in one line.
func rpcErrorText(raw json.RawMessage) string {
	if !isRPCError(raw) {
		return "an error that is none: " + string(raw)
	}
	var e struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
	}
	if json.Unmarshal(raw, &e) != nil {
		return string(raw)
	}
	return e.Message + " (" + strconv.FormatInt(e.Code, 10) + ")"
}
