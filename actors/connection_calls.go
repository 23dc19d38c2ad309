package actors

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// onCall takes a call that has just come.
func (c *connection) onCall(ctx *kernel.Context, call *messages.Call) {
	call.Needs, call.Until = max(1, c.gate.announced), nil
	turn := c.ready && c.asker.Load() && (len(c.waiters) > 0 || !c.itsTurn(call))
	if turn || c.ready && !c.fits(call) {
		c.wait(ctx, call)
		c.lookAfterTurns(ctx)
		return
	}
	c.admit(ctx, call)
}

// admit gives a call to the child, lets it wait, or hands it back.
func (c *connection) admit(ctx *kernel.Context, call *messages.Call) {
	if call.Cancelled != nil && call.Cancelled.Load() {
		c.handled++
		c.answer(call, &messages.Answer{Err: supervision.Cancelled(call)})
		c.stillIdle(ctx)
		return
	}
	if c.heldBack(ctx, call) {
		return
	}
	switch c.state {
	case messages.StateIdle, messages.StateActive:
		if c.ready && !c.gated(call) {
			c.sendVetted(ctx, call)
			return
		}
	case messages.StateConnecting:
	case messages.StateFailed, messages.StateClosed:
		c.handled++
		ctx.Send(c.parent, &messages.CallReturned{Instance: c.instance, Call: call})
		return
	}
	c.wait(ctx, call)
}

// wait lets a call wait in the order in which it came.
func (c *connection) wait(ctx *kernel.Context, call *messages.Call) {
	if len(c.waiters) >= maxConnWaiters && !c.displace(call) {
		c.refuseWaiting(call)
		return
	}
	c.waiters = append(c.waiters, call)
	c.boundWait(ctx, call)
	c.listForGate(ctx)
}

// boundWait makes sure that a call which waits does so no longer than it may.
func (c *connection) boundWait(ctx *kernel.Context, call *messages.Call) {
	if c.ready {
		c.setUntil(call)
	}
	if due := waitsUntil(call); !due.IsZero() {
		c.arm(ctx, due)
	}
}

// setUntil makes a call wait at a child that is ready no longer than the child may then
// take for it. The wait takes nothing of that time, so that no child is given a call that
// it has no time for; a deadline that the client has set goes on, of course.
func (c *connection) setUntil(call *messages.Call) {
	if call.Until != nil {
		return // it was taken up and goes on to wait
	}
	timeout := call.Timeout
	if timeout <= 0 {
		timeout = c.spec.Timeout
	}
	if timeout > 0 {
		until := time.Now().Add(timeout)
		call.Until = &until
	}
}

// waitsUntil is when a call that waits is to be answered without the child; zero: that is
// not known yet.
func waitsUntil(call *messages.Call) time.Time {
	if call.Until != nil && (call.Deadline.IsZero() || call.Until.Before(call.Deadline)) {
		return *call.Until
	}
	return call.Deadline
}

// send gives a call to the child.
func (c *connection) send(ctx *kernel.Context, call *messages.Call) {
	if len(c.inflight) >= maxInFlight {
		c.handled++
		c.turnDown(call, &messages.Error{
			Code: messages.CodePoolSaturated, Server: c.spec.Name, Tool: call.Tool, Retryable: true,
			Message: strconv.Itoa(maxInFlight) + " calls are in flight at " + strconv.Quote(c.spec.Name),
			Hint:    "Wait for some of them to be answered.",
		})
		return
	}
	if c.knowsSubscription(ctx, call) {
		return
	}
	if !c.to(ctx, supervision.EventRequestStarted) {
		c.handled++
		ctx.Send(c.parent, &messages.CallReturned{Instance: c.instance, Call: call})
		return
	}
	timeout := call.Timeout
	if timeout <= 0 {
		timeout = c.spec.Timeout
	}
	if c.spec.MaxTimeout > 0 {
		timeout = min(timeout, c.spec.MaxTimeout)
	}
	now := time.Now()
	p := &pending{call: call, timeout: timeout, since: now, deadline: now.Add(timeout), limit: now.Add(max(timeout, c.spec.MaxTimeout)), told: call.Told, word: now, input: call.Input}
	if !call.Deadline.IsZero() && call.Deadline.Before(p.deadline) {
		p.deadline = call.Deadline // the wait for the connection took some of it
	}
	c.enter(p) // before the write, which may be answered or panic
	if call.Method == methodSubscribe && c.hs.era == messages.EraModern {
		c.arm(ctx, p.deadline)
		c.subscribes(ctx, p)
		return
	}
	if call.Log >= messages.LogDebug && c.hs.logs {
		c.setLevel(ctx, call)
	}
	switch err := c.write(p); {
	case errors.Is(err, ErrBacklog):
		c.leave(call.ID)
		c.handled++
		c.turnDown(call, &messages.Error{
			Code: messages.CodePoolSaturated, Server: c.spec.Name, Tool: call.Tool, Retryable: true, Cause: err,
			Message: strconv.Quote(c.spec.Name) + " does not take the call: " + err.Error(),
			Hint:    "The server is busy or has stopped reading; try again later.",
		})
		c.idleIfDone(ctx)
		return
	case err != nil:
		// The link has failed and will say so: until then the call waits,
		// unwritten, and then goes where the others go.
		c.leave(call.ID)
		c.waiters = append(c.waiters, call)
		c.boundWait(ctx, call)
		return
	}
	c.arm(ctx, p.deadline)
}

// wireID is the id under which the child has the call now.
func (p *pending) wireID() uint64 { return p.call.ID | p.round<<roundShift }

// withChild is the call that the child has under an id now; nil: it has none.
func (c *connection) withChild(id uint64) *pending {
	p := c.inflight[id&callMask]
	if p == nil || p.round != id>>roundShift || p.away {
		return nil
	}
	return p
}

func (c *connection) write(p *pending) error {
	id, call, wire := c.deps.identity, p.call, p.wireID()
	can := call.Can.And(c.spec.Asks)
	t := tail{era: c.hs.era, can: can, log: call.Log, input: p.input}
	if call.Sending != nil {
		t.meta = call.Sending.Sending(messages.Sending{Instance: c.instance, Attempt: call.Attempt, Era: c.hs.era, Transport: c.spec.Transport})
	}
	c.run.link.Cork(call.Burst)
	if !call.OfTool() {
		return c.run.link.Sendv(id.askLine(call, wire, t))
	}
	args := []byte(call.Args)
	if len(args) == 0 {
		args = []byte("{}")
	}
	if len(args) <= inlineArgs {
		line := make([]byte, 0, 160+len(call.Tool)+len(args)+len(id.modernMeta)+len(t.meta))
		line = append(id.callHead(line, wire, call.Tool), args...)
		return c.run.link.Send(id.callTail(line, wire, t))
	}
	return c.run.link.Sendv(id.callHead(nil, wire, call.Tool), args, id.callTail(nil, wire, t))
}

// onFrame takes one message of the child's.
func (c *connection) onFrame(ctx *kernel.Context, f *messages.Frame) {
	if c.ping != nil {
		c.ping.Stop() // it lives
		c.ping = nil
	}
	switch {
	case f.Method == "":
		c.onResponse(ctx, f)
	case len(f.ID) > 0:
		c.onChildRequest(ctx, f)
	case f.Method == methodProgress:
		c.onProgress(f)
	case f.Method == methodListChanged:
		c.listChanged(ctx)
	case f.Method == methodMessage:
		c.onMessage(f)
	case f.Method == methodElicited:
		c.onElicited(f)
	case f.Method == methodCancelled:
		c.onChildCancelled(ctx, f)
	default:
		c.onNotice(ctx, f)
	}
}

func (c *connection) onResponse(ctx *kernel.Context, f *messages.Frame) {
	id, ok := messages.ParseRequestID(f.ID)
	if !ok {
		c.deps.late.Add(1)
		ctx.Event("stray", "a response with an id that nobody gave out", 0)
		return
	}
	c.watch.listen.answeredBefore(id)
	p := c.withChild(id)
	if p == nil {
		if handle, ok := c.internal[id]; ok {
			delete(c.internal, id)
			handle(ctx, f)
			return
		}
		c.onLate(ctx, id)
		return
	}
	ctx.Correlate(p.call.Trace)
	p.tool.answered(len(f.Result), time.Since(p.since))
	a := &messages.Answer{More: f.More, Redacted: f.Redacted, Has: f.Has}
	if c.hs.era == messages.EraModern && needsInput(f.Result) {
		if !c.onInputNeeded(ctx, p, f) {
			return
		}
		a.NeedsInput = true
	}
	switch {
	case isObject(f.Result):
		a.Result = f.Result
	case isRPCError(f.Error):
		a.RPCError = f.Error
	default:
		a.Err = c.noAnswer(p.call, f)
	}
	c.conclude(ctx, p, a)
}

// conclude gives a call the answer that the child had for it.
func (c *connection) conclude(ctx *kernel.Context, p *pending, a *messages.Answer) {
	c.leave(p.call.ID)
	defer c.settle(p, a)
	c.over(ctx, p, "the call was answered")
	c.handled++
	c.heard()
	if a.RPCError != nil {
		c.expectElicited(p.call, a.RPCError)
	}
	c.subscribed(p.call, a)
	if !c.proven {
		c.proven = true
		ctx.Send(c.parent, &messages.FirstSuccess{Instance: c.instance})
	}
	// Breaker and pool hear of it first: who has the answer and calls another
	// server at once may have this connection evicted for it.
	c.idleIfDone(ctx)
}

// heard counts a call that the child has answered.
func (c *connection) heard() {
	c.answered++
	c.gauge.Answered.Store(c.answered)
}

// onProgress passes a child's progress on and gives the call new time.
func (c *connection) onProgress(f *messages.Frame) {
	var params struct {
		Token    json.RawMessage `json:"progressToken"`
		Progress json.RawMessage `json:"progress"`
		Total    json.RawMessage `json:"total"`
		Message  json.RawMessage `json:"message"`
	}
	if json.Unmarshal(f.Params, &params) != nil {
		return
	}
	id, ok := messages.ParseRequestID(params.Token)
	if !ok {
		return
	}
	p := c.withChild(id)
	if p == nil {
		c.deps.late.Add(1) // clients break on progress after the answer
		return
	}
	c.ctx.Correlate(p.call.Trace)
	p.deadline = time.Now().Add(p.timeout)
	if p.deadline.After(p.limit) {
		p.deadline = p.limit
	}
	// The child lives; but what is no proper progress would break a client.
	proper := isNumber(params.Progress) && (params.Total == nil || isNumber(params.Total)) && (params.Message == nil || params.Message[0] == '"')
	if !proper {
		c.deps.late.Add(1)
		return
	}
	if p.call.Progress == nil {
		return
	}
	// What one child says stays as it is. One that has the call after another begins anew.
	value, _ := strconv.ParseFloat(string(params.Progress), 64) // one that is out of range is infinite
	if !p.told.Before(value) {
		c.deps.late.Add(1)
		if params := p.below(params.Message, time.Now()); params != nil {
			c.progress(p.call, params)
		}
		return
	}
	p.call.Told.Add(value)
	c.progress(p.call, f.Params)
}

// below is what is told now and then in the place of progress that is not above what was
// told before the child had the call: that it goes on, with the child's own words where
// it has any. A client that gives a call new time with each progress would give it up
// otherwise, until the child has come as far as the one before it. nil: nothing.
func (p *pending) below(message json.RawMessage, now time.Time) json.RawMessage {
	if now.Sub(p.word) < turnWord {
		return nil
	}
	p.word = now
	if message == nil {
		message = json.RawMessage(`"the call goes on"`)
	}
	params := aboveProgress(&p.call.Told, message)
	p.told = p.call.Told
	return params
}

// progress tells the caller, who wants to know, how far a call is.
func (c *connection) progress(call *messages.Call, params json.RawMessage) {
	c.ctx.Contain(func() { call.Progress.Progress(call.ID, params) })
}

// onChildRequest answers what a child asks of its client.
func (c *connection) onChildRequest(ctx *kernel.Context, f *messages.Frame) {
	if c.hs.asked[f.Method] {
		// A program such as cat gives back what it is told.
		c.fail(ctx, messages.Evidence{Text: "the program echoes what it is sent; it is no MCP server"})
		return
	}
	if f.Method == methodPing {
		c.reply(ctx, f.ID, `"result":{}`)
		return
	}
	c.onAsk(ctx, f)
}

// reply answers a request of the child's; body is as for responseLine.
func (c *connection) reply(ctx *kernel.Context, id json.RawMessage, body string) {
	if c.run != nil && c.run.link != nil {
		c.sendInternal(ctx, responseLine(id, body))
	}
}

// sendInternal writes a line of the connection's own. One that the child does
// not take means that it has not read for a long time; the write deadline will
// end it, so the loss is only traced.
func (c *connection) sendInternal(ctx *kernel.Context, line []byte) {
	c.run.link.Cork(nil) // whoever waits for it is of no burst
	if err := c.run.link.Send(line); err != nil {
		ctx.Event("unsent", err.Error(), 0)
	}
}

// onCancel gives up a call and tells the child.
func (c *connection) onCancel(ctx *kernel.Context, m *messages.Cancel) {
	if p, ok := c.inflight[m.Call]; ok {
		c.leave(m.Call)
		c.giveUp(p.call)
		c.handled++
		c.overThen(ctx, p, "the call was cancelled", func() {
			c.answer(p.call, &messages.Answer{Err: supervision.Cancelled(p.call)})
		})
		if !p.away {
			c.sendInternal(ctx, cancelledLine(p.wireID(), m.Reason))
		}
		c.listenOn(ctx)
		c.idleIfDone(ctx)
		return
	}
	for i, w := range c.waiters {
		if w.ID == m.Call {
			c.waiters = append(c.waiters[:i:i], c.waiters[i+1:]...)
			c.handled++
			c.answer(w, &messages.Answer{Err: supervision.Cancelled(w)})
			c.stillIdle(ctx)
			c.nextTurn(ctx)
			return
		}
	}
}

// request sends a request of the connection's own.
func (c *connection) request(ctx *kernel.Context, method string, params []byte, handle func(*kernel.Context, *messages.Frame)) uint64 {
	c.nextID++
	id := c.nextID
	c.internal[id] = handle
	c.sendInternal(ctx, c.deps.identity.requestLine(c.hs.era, c.spec.Asks, id, method, params))
	return id
}
