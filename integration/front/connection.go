package front

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/messages"
)

// maxParsers is how many large messages are checked at once. The reader checks
// the next one itself, which holds the client back.
const maxParsers = 8

const (
	methodCancelled = "notifications/cancelled"
	methodProgress  = "notifications/progress"
)

// connection is one client connection while [Serve] runs.
type connection struct {
	opts  Options
	out   sink // what belongs to no request
	peer  *Peer
	names *names
	anyID bool // several clients at once: an id alone names no request
	// questions are those that the client was asked, and has not answered.
	questions questions
	// untaken says why nobody takes up any more what is parked; "": somebody may.
	// It is guarded by opts.Parked.
	untaken string

	ctx     context.Context // of all requests; ends when Serve returns
	base    context.Context // ctx with the peer in it
	running sync.WaitGroup  // requests in flight and large messages being checked
	slots   chan struct{}   // requests that mcp-go works on
	parsers chan struct{}

	gate      sync.Mutex // held while a line is taken; guards closing
	closing   bool       // no new requests
	readEnded atomic.Bool

	mu       sync.Mutex // guards what follows
	table    *Session
	refusing bool // no new requests, and running only falls
}

func newConnection(ctx context.Context, opts Options, out sink) *connection {
	c := &connection{
		opts: opts, out: out, peer: newPeer(opts, out), ctx: ctx,
		slots:   make(chan struct{}, opts.MaxConcurrent),
		parsers: make(chan struct{}, maxParsers),
		table:   NewSession(),
		names:   &names{},
	}
	c.base = opts.MCP.WithContext(ctx, c.peer)
	return c
}

var bom = []byte("\xef\xbb\xbf")

// line takes one line of the client. It runs on the reading goroutine.
func (c *connection) line(line []byte, first bool, burst *messages.Burst) {
	if first {
		line = bytes.TrimPrefix(line, bom)
	}
	if len(bytes.TrimLeft(line, " \t\r")) == 0 {
		return
	}
	if len(line) <= largeLine {
		c.message(line, c.out, burst)
		return
	}
	select {
	case c.parsers <- struct{}{}:
	default:
		c.message(line, c.out, burst)
		return
	}
	c.mu.Lock()
	if c.refusing {
		c.mu.Unlock()
		<-c.parsers
		c.message(line, c.out, burst)
		return
	}
	number := c.table.BeginParse()
	c.running.Add(1)
	c.mu.Unlock()
	go func() {
		defer c.running.Done()
		defer func() { <-c.parsers }()
		c.parsed(line, number, c.out, burst)
		c.mu.Lock()
		c.table.EndParse()
		c.mu.Unlock()
	}()
}

// message checks one message and begins what it asks for; what it is answered
// goes to out.
func (c *connection) message(line []byte, out sink, burst *messages.Burst) {
	c.parsed(line, 0, out, burst)
}

// parsed is message for one that may be overtaken; number is its [Entry.Parse].
func (c *connection) parsed(line []byte, number uint64, out sink, burst *messages.Burst) {
	in := incoming{burst: burst, number: number}
	if err := in.parse(line); err != nil {
		refuse(out, in.ID, codeOf(err), err.Error())
		return
	}
	c.begin(&in, out)
}

// codeOf is the JSON-RPC code for an error of parseIncoming.
func codeOf(err error) int {
	var bad *jsonrpc.MessageError
	if errors.As(err, &bad) {
		return codeInvalid
	}
	return codeParse
}

// begin begins what a message asks for. It returns the request that is now in
// flight, or was a moment ago; nil where there is none.
func (c *connection) begin(in *incoming, out sink) *Entry {
	switch {
	case in.IsNotification():
		c.notification(in)
	case !in.IsRequest():
		c.answered(in)
	case string(in.ID) == nullID:
		refuse(out, nil, codeInvalid, "the id of a request must not be null; use a string or a number")
	default:
		era, ok := in.era()
		if in.slots[slotState] != nil {
			if e, taken := c.takeOver(in, era, out); taken {
				return e
			}
		}
		if ok && in.calls(c.opts.Tool) {
			return c.call(in, era, out)
		}
		if ok && c.opts.Passed != nil {
			if e, took := c.passOn(in, era, out); took {
				return e
			}
		}
		return c.request(in, era, out)
	}
	return nil
}

// refuse answers a message that is no request that can be begun.
func refuse(out sink, id json.RawMessage, code int, why string) {
	_ = out.Answer(AppendError(nil, id, code, why)) // the session ends when the output fails
}

// notification hands a notification on, in order with all others.
func (c *connection) notification(in *incoming) {
	switch in.Method {
	case methodCancelled:
		if id := in.slots[slotRequestID]; id != nil {
			c.cancel(id, in.slots[slotReason])
		}
	case methodProgress:
		c.progressed(in)
	default:
		c.mcpgo(c.base, in)
	}
}

// cancel ends a request for good: it gets no answer.
func (c *connection) cancel(id, reason []byte) {
	c.mu.Lock()
	e := c.table.Cancel(id)
	c.mu.Unlock()
	if e == nil {
		return
	}
	why, err := jsonrpc.Unquote(reason)
	if err != nil || why == "" {
		why = "the client cancelled the request"
	}
	c.cancelled(e, why)
}

// giveUp is cancel for a request that is known.
func (c *connection) giveUp(e *Entry, why string) {
	c.mu.Lock()
	taken := c.table.GiveUp(e)
	c.mu.Unlock()
	if taken {
		c.cancelled(e, why)
	}
}

// cancelled ends the work on a request that was taken out of the table.
func (c *connection) cancelled(e *Entry, why string) {
	e.out.Drop()
	if e.Stop != nil {
		e.Stop()
		return
	}
	if w := c.begun(e); w != nil {
		w.giveUp(why)
		c.running.Done()
		return
	}
	c.opts.Engine.Cancel(c.opts.Session, e.Call, why)
	c.running.Done()
}

// inFlight is how many requests wait for their answer.
func (c *connection) inFlight() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.table.Len()
}

// keyOf is what the table knows a request by; "": its id.
func (c *connection) keyOf(e *Entry) string {
	if !c.anyID {
		return ""
	}
	return "call " + strconv.FormatUint(e.Call, 10) // no id reads like that
}

// register puts the request that a message is into the table, or answers why it cannot
// begin.
func (c *connection) register(e *Entry, in *incoming) bool {
	c.mu.Lock()
	refusing := c.refusing
	var err error
	if !refusing {
		if err = c.table.Register(e); err == nil {
			c.running.Add(1)
			e.free, in.free = in.free, nil
		}
	}
	c.mu.Unlock()
	switch {
	case refusing:
		_ = e.out.Answer(c.failure(e, errShuttingDown)) // the session ends when the output fails
	case err == nil:
		return true
	case errors.Is(err, ErrCancelled):
		e.out.Drop()
	default:
		refuse(e.out, e.ID, codeInvalid, err.Error())
	}
	return false
}

// failure is the answer to a request that goes to a server, where we fail.
func (c *connection) failure(e *Entry, err *messages.Error) []byte {
	if e.passed {
		return AppendFailure(nil, e.ID, err, e.Era)
	}
	return AppendToolError(nil, e.ID, err, e.Era, c.opts.ServerInfo)
}

// errShuttingDown refuses what comes while the session drains.
var errShuttingDown = &messages.Error{
	Code: messages.CodeShuttingDown, Message: "metamcp is shutting down and takes no more requests; nothing was sent",
	Hint: "Send it again once metamcp runs again.", Retryable: true,
}

// refuseNew makes every later request be refused; cancellations still count.
func (c *connection) refuseNew() {
	c.mu.Lock()
	c.refusing = true
	c.mu.Unlock()
}

// finish says whether the answer to a request is to be written.
func (c *connection) finish(e *Entry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.table.Finish(e)
}

// call begins a call of the spliced tool.
func (c *connection) call(in *incoming, era messages.Era, out sink) *Entry {
	p := &pending{c: c}
	p.ID, p.Call, p.Token, p.Era, p.out, p.Parse = in.ID, NextCall(), in.token(), era, out, in.number
	p.key = c.keyOf(&p.Entry)
	r := Request{
		Session: c.opts.Session, Call: p.Call, Params: in.Params, Era: era, Transport: p.transport(), Context: in.traceContext(),
		Burst: in.burst, Cancelled: p.Cancelled(), Reply: p,
	}
	if p.Token != nil {
		r.Progress = p
	}
	if !c.canAsk(in, p, &r) {
		return nil
	}
	bad := in.request(&r, c.names)
	if !c.register(&p.Entry, in) {
		return nil
	}
	if bad != nil {
		p.Answer(&messages.Answer{Call: p.Call, Err: bad})
		return nil
	}
	c.opts.Engine.Call(r)
	return &p.Entry
}

// canAsk adds to a request how its client can be asked, and what it was asked for
// before; false: what it brings of that is not what was given out, and it is
// refused.
func (c *connection) canAsk(in *incoming, p *pending, r *Request) bool {
	r.Client, r.Shared, r.TakesInput = p, c.anyID, p.Era == messages.EraModern
	r.Can, r.Log = c.peer.able.of(in, p.Era)
	if !r.TakesInput {
		return true
	}
	p.params = in.Params
	input, ours := c.input(in)
	if !ours {
		refuse(p.out, in.ID, codeParams, staleState)
		return false
	}
	r.Input = input
	return true
}

// request begins a request that mcp-go answers.
func (c *connection) request(in *incoming, era messages.Era, out sink) *Entry {
	select {
	case c.slots <- struct{}{}:
	default:
		refuse(out, in.ID, codeTooMany, fmt.Sprintf("too many requests in flight: %d are being worked on; wait for answers and try again", cap(c.slots)))
		return nil
	}
	e := &Entry{ID: in.ID, Call: NextCall(), Token: in.token(), Era: era, Parse: in.number, out: out}
	e.passed = in.Method != "tools/call"
	e.reads = e.passed
	e.key = c.keyOf(e)
	if era == messages.EraModern {
		e.params = in.Params
	} else if in.Method == "initialize" {
		c.peer.able.greeted(in.Params)
	}
	ctx := c.base
	var l *listener
	if in.Method == "subscriptions/listen" {
		e.Stream = true
		l = newListener(c.peer, in.ID, out)
		ctx = c.opts.MCP.WithContext(c.ctx, l)
	}
	if in.Method == methodToolsCall {
		caller := &Caller{c: c, e: e, tool: c.names.of(in.slots[slotName]), context: in.traceContext()}
		caller.can, caller.log = c.peer.able.of(in, era)
		ctx = context.WithValue(ctx, callerKey{}, caller)
	}
	ctx, e.Stop = context.WithCancel(ctx)
	if l != nil && c.opts.Passed != nil {
		ctx = c.opts.MCP.WithContext(ctx, &resourceListener{listener: l, passed: c.opts.Passed, call: e.Call, over: ctx.Done()})
	}
	if !c.register(e, in) {
		e.Stop()
		<-c.slots
		return nil
	}
	switch in.Method {
	case "initialize", "server/discover", "ping":
		// Answered from memory, and in order, so that what a script pipes in
		// without waiting finds the handshake done. That waits for notifications
		// before it, and nothing is held back meanwhile.
		in.burst.End()
		c.handle(ctx, e, in, l)
	default:
		own := *in // in may stay on the stack of who calls, as most messages can
		go c.handle(ctx, e, &own, l)
	}
	return e
}
