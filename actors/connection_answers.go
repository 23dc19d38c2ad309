package actors

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// settle answers a call that has left the tables. It is deferred: what panics
// meanwhile, such as the link when it is given the call whose turn has come, loses
// no answer.
func (c *connection) settle(p *pending, a *messages.Answer) {
	c.probeOver(p.call, true)
	c.answer(p.call, a)
	c.hold(p.call.Reply, a.More)
}

func isNumber(raw json.RawMessage) bool {
	return len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// isRPCError says whether a client would take raw for the error of a response.
func isRPCError(raw json.RawMessage) bool {
	var e struct {
		Code    *int64  `json:"code"`
		Message *string `json:"message"`
	}
	return isObject(raw) && json.Unmarshal(raw, &e) == nil && e.Code != nil && e.Message != nil
}

// isUnknownMethod says whether an error is that the child does not know the request.
func isUnknownMethod(raw json.RawMessage) bool {
	var e struct {
		Code int64 `json:"code"`
	}
	return isRPCError(raw) && json.Unmarshal(raw, &e) == nil && e.Code == mcp.METHOD_NOT_FOUND
}

// noAnswer is the error for a response that no client could read: passed on,
// it would leave the caller waiting.
func (c *connection) noAnswer(call *messages.Call, f *messages.Frame) *messages.Error {
	e := &messages.Error{
		Code: messages.CodeToolExecution, Server: c.spec.Name, Tool: call.Tool, Class: messages.ClassOther,
		Message: strconv.Quote(c.spec.Name) + " answered with neither a result object nor a proper error",
		Hint:    "This is a fault of the server. Check what the call may have done before you repeat it.",
	}
	for _, said := range []json.RawMessage{f.Result, f.Error} {
		if len(said) > 0 {
			e.Details = append(e.Details, strings.ToValidUTF8(c.deps.beginning(said), ""))
		}
	}
	return e
}

// hold remembers who may be holding an answer back, and forgets who got one
// that ends a burst.
func (c *connection) hold(port messages.ReplyPort, more bool) {
	fp, ok := port.(messages.FlushPort)
	if !ok {
		return
	}
	i := slices.Index(c.holding, fp)
	switch {
	case more && i < 0:
		c.holding = append(c.holding, fp)
	case !more && i >= 0:
		c.holding = slices.Delete(c.holding, i, i+1)
	}
}

// letGo ends a burst.
func (c *connection) letGo() {
	for _, fp := range c.holding {
		c.ctx.Contain(fp.Flush)
	}
	clear(c.holding)
	c.holding = c.holding[:0]
}

// probeOver tells the breaker, once and before anybody else hears of it, that the call
// which it waits for is over.
func (c *connection) probeOver(call *messages.Call, answered bool) {
	if call.Probe {
		call.Probe = false
		c.ctx.Send(c.parent, &messages.ProbeOver{Call: call.ID, Answered: answered})
	}
}

// turnDown answers a call that this child did not get. One before it may have had it.
func (c *connection) turnDown(call *messages.Call, err *messages.Error) {
	c.answer(call, &messages.Answer{Err: supervision.BegunBefore(err, call)})
}

// answer gives a call its one answer.
func (c *connection) answer(call *messages.Call, a *messages.Answer) {
	c.probeOver(call, false)
	a.Call, a.Server, a.Instance = call.ID, c.spec.Name, c.instance
	if a.Err != nil { // it may repeat what the child said
		a.Err = c.deps.scrubError(a.Err)
	}
	from := c.ctx.Origin()
	a.FromActor, a.FromSpan = from.Actor, from.Span
	c.ctx.Contain(func() { call.Reply.Answer(a) })
}
