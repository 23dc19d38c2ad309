package actors

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// onAnswered takes the client's answer to the child.
func (c *connection) onAnswered(ctx *kernel.Context, m *messages.QuestionAnswer) {
	a := c.asks.open[m.Question]
	if a == nil {
		c.deps.late.Add(1)
		return
	}
	p := a.p
	ctx.Correlate(p.call.Trace)
	if ctx.Tracing() {
		ctx.Event("answered", a.q.Method+" "+actionOf(a.q.Method, m)+" after "+time.Since(a.since).Round(time.Millisecond).String(), p.call.Trace)
	}
	c.close(ctx, a)
	switch {
	case a.id == nil:
		c.onInput(ctx, a, m)
	case m.Result != nil:
		c.reply(ctx, a.id, `"result":`+string(m.Result))
	default:
		c.reply(ctx, a.id, `"error":`+string(m.Error))
	}
}

// onProgressed tells the child how far the client is with its answer. A modern child,
// which asks with a result, has no request open that progress could be of. What is too
// much for a child is dropped: the next one says more.
func (c *connection) onProgressed(ctx *kernel.Context, m *messages.QuestionProgress) {
	a := c.asks.open[m.Question]
	if a == nil || a.id == nil || len(m.Params) > maxProgressedBytes || !c.asks.mayTell(time.Now()) {
		return
	}
	ctx.Correlate(a.p.call.Trace)
	if c.run != nil && c.run.link != nil {
		c.sendInternal(ctx, notificationLine(methodProgress, m.Params))
	}
}

// mayTell says whether the child may be told of progress once more, and counts it.
func (a *asks) mayTell(now time.Time) bool {
	if now.Sub(a.second) >= time.Second {
		a.second, a.told = now, 0
	}
	a.told++
	return a.told <= maxProgressed
}

// actionOf is all that is told of an answer.
func actionOf(method string, m *messages.QuestionAnswer) string {
	if m.Result == nil {
		return "refused"
	}
	var r struct {
		Action string `json:"action"`
	}
	if method == messages.MethodElicit && json.Unmarshal(m.Result, &r) == nil {
		switch r.Action {
		case "accept", "decline", "cancel":
			return r.Action
		}
	}
	return "answered"
}

// onAskDue gives up a question that the client does not answer.
func (c *connection) onAskDue(ctx *kernel.Context, m *askDue) {
	a := c.asks.open[m.question]
	if a == nil {
		return
	}
	c.withdraw(a.p, []*messages.Question{a.q}, "timed out")
	c.onAnswered(ctx, &messages.QuestionAnswer{Question: m.question, Error: rpcError(rpcRefused, "the client did not answer "+a.q.Method+" in time")})
}

// onChildCancelled ends a question that the child itself gave up, or a subscription
// to it.
func (c *connection) onChildCancelled(ctx *kernel.Context, f *messages.Frame) {
	var params struct {
		ID     json.RawMessage `json:"requestId"`
		Reason string          `json:"reason"`
	}
	if json.Unmarshal(f.Params, &params) != nil || params.ID == nil {
		return
	}
	if a := c.asks.byID[string(params.ID)]; a != nil {
		c.close(ctx, a)
		c.withdraw(a.p, []*messages.Question{a.q}, c.deps.beginning([]byte(params.Reason)))
		return
	}
	c.asks.held = slices.DeleteFunc(c.asks.held, func(h *messages.Frame) bool { return string(h.ID) == string(params.ID) })
	c.listenCancelled(ctx, params.ID)
}

// over ends what is open of a call that the child has no more. Where the call was
// a guess, another one of the client takes its place.
func (c *connection) over(ctx *kernel.Context, p *pending, why string) {
	if len(p.asks) == 0 {
		return
	}
	if heir, _ := c.callOf(&messages.Frame{}); heir != nil && reachable(heir) && sameClient(heir.call, p.call) {
		p.asks = slices.DeleteFunc(p.asks, func(a *ask) bool {
			if !a.guessed {
				return false
			}
			if !slices.Contains(a.holds, heir) {
				a.hold(heir)
			}
			a.p, heir.asks = heir, append(heir.asks, a)
			return true
		})
	}
	for _, a := range c.forgetAsks(ctx, p, why) {
		if a.id != nil {
			c.reply(ctx, a.id, errorBody(rpcRefused, "nobody is asked any more: "+why))
		}
	}
}

// overThen does over and then done, whatever happens: who has the call now has it in
// no table.
func (c *connection) overThen(ctx *kernel.Context, p *pending, why string, done func()) {
	defer done()
	c.over(ctx, p, why)
}

// forgetAsks withdraws what is open of a call at its client.
func (c *connection) forgetAsks(ctx *kernel.Context, p *pending, why string) []*ask {
	if len(p.asks) == 0 {
		return nil
	}
	gone := slices.Clone(p.asks)
	questions := make([]*messages.Question, len(gone))
	for i, a := range gone {
		questions[i] = a.q
		c.close(ctx, a)
	}
	c.withdraw(p, questions, why)
	return gone
}

// withdraw takes questions back at the client of a call.
func (c *connection) withdraw(p *pending, questions []*messages.Question, why string) {
	c.ctx.Contain(func() { p.call.Client.Withdraw(p.call.ID, questions, why) })
}
