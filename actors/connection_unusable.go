package actors

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// onTooLarge fails the request whose answer was over the size cap.
func (c *connection) onTooLarge(ctx *kernel.Context, m *runTooLarge) {
	if c.run == nil || m.run != c.run.n {
		return
	}
	known := c.unusable(ctx, m.id, &messages.Error{
		Code: messages.CodeToolExecution, Server: c.spec.Name,
		Message: "the answer of " + strconv.Quote(c.spec.Name) + " is larger than 64 MiB and was dropped; the call itself was carried out",
		Hint:    "Ask for less: a page, a range or a filter.",
	}, nil)
	if !known {
		ctx.Event("too-large", "a message over the size cap that answers nothing that is in flight", 0)
	}
}

// onBroken fails the request whose answer nobody can read.
func (c *connection) onBroken(ctx *kernel.Context, m *runBroken) {
	if c.run == nil || m.run != c.run.n {
		return
	}
	why := "it is no JSON-RPC message"
	if m.why != nil {
		why = m.why.Error()
	}
	if told := evident(nil); errors.As(m.why, &told) {
		ctx.Event("refused", why, 0)
		ev := told.Evidence()
		c.unusable(ctx, m.id, supervision.Describe(c.spec.Name, ev), &ev)
		return
	}
	ctx.Event("noise", m.line, 0)
	c.unusable(ctx, m.id, &messages.Error{
		Code: messages.CodeToolExecution, Server: c.spec.Name, Class: messages.ClassOther, Cause: m.why,
		Message: strconv.Quote(c.spec.Name) + " answered with a line that cannot be read: " + why,
		Hint:    "This is a fault of the server. Check what the call may have done before you repeat it.",
		Details: []string{"the line begins with " + strings.ToValidUTF8(m.line, "\uFFFD")},
	}, nil)
}

// unusable ends the request to which an answer came that is of no use, one of
// the connection's own included. Evidence of a child in trouble goes to the
// breaker together with the call. False: there is no such request.
func (c *connection) unusable(ctx *kernel.Context, raw json.RawMessage, err *messages.Error, ev *messages.Evidence) bool {
	if c.ping != nil {
		c.ping.Stop() // it lives
		c.ping = nil
	}
	id, ok := messages.ParseRequestID(raw)
	if !ok {
		return false
	}
	if handle, ok := c.internal[id]; ok {
		delete(c.internal, id)
		if c.listing != nil && c.listing.id == id {
			var failed messages.ListingFailed
			if ev != nil {
				failed.Evidence = *ev
				// That it refuses the request says nothing against one that never said that it
				// has tools.
				failed.Toolless = !c.hs.offers.Has(messages.OffersTools) && !supervision.InTrouble(*ev) && supervision.Counts(supervision.Classify(*ev))
			}
			c.failListing(ctx, err.Message, failed)
			return true
		}
		const internalError = `{"code":-32603,"message":`
		handle(ctx, &messages.Frame{ID: raw, Error: append(appendString([]byte(internalError), err.Message), '}')})
		return true
	}
	p := c.withChild(id)
	if p == nil {
		return false
	}
	c.leave(p.call.ID)
	c.handled++
	if ev != nil && supervision.InTrouble(*ev) {
		c.overThen(ctx, p, "the call was answered", func() {
			ctx.Send(c.parent, &messages.RequestFailed{
				Instance: c.instance, Evidence: *ev, Call: p.call, Sent: p.since, Answered: c.answered,
			})
		})
		c.idleIfDone(ctx)
		return true
	}
	c.heard() // badly, but the child is there
	err.Tool = p.call.Tool
	defer c.settle(p, &messages.Answer{Err: err})
	c.over(ctx, p, "the call was answered")
	c.idleIfDone(ctx)
	return true
}
