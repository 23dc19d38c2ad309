package actors

import (
	"strconv"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// arm makes sure that the alarm goes off at t or before.
func (c *connection) arm(ctx *kernel.Context, t time.Time) {
	if !c.wake.IsZero() && !c.wake.After(t) {
		return
	}
	c.timer.Stop()
	c.gen++
	c.wake = t
	c.timer = ctx.After(time.Until(t), &deadlineDue{c.gen})
}

// onDeadline times out what is due and sets the alarm for what is left.
func (c *connection) onDeadline(ctx *kernel.Context) {
	c.wake = time.Time{}
	now := time.Now()
	var next time.Time
	later := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	timedOut := false
	for id, p := range c.inflight {
		if p.asking > 0 {
			continue // its time stands still, and each question has its own
		}
		if p.deadline.After(now) {
			later(p.deadline)
			continue
		}
		timedOut = true
		c.leave(id)
		c.giveUp(p.call)
		c.handled++
		c.answer(p.call, &messages.Answer{Err: c.timeoutError(p)})
		if !p.away {
			c.sendInternal(ctx, cancelledLine(p.wireID(), "timed out"))
		}
	}
	kept := c.waiters[:0]
	for _, w := range c.waiters {
		switch due := waitsUntil(w); {
		case due.IsZero():
			kept = append(kept, w)
		case due.After(now):
			later(due)
			kept = append(kept, w)
		default:
			c.handled++
			c.turnDown(w, c.waitedTooLong(w))
		}
	}
	c.asidesDue(ctx, now, later)
	gaveUp := len(kept) < len(c.waiters)
	clear(c.waiters[len(kept):])
	c.waiters = kept
	if timedOut {
		c.listenOn(ctx)
	}
	if timedOut && c.ping == nil && c.ready {
		c.sendPing(ctx)
	}
	if !next.IsZero() {
		c.arm(ctx, next)
	}
	if gaveUp {
		c.stillIdle(ctx)
	}
	c.idleIfDone(ctx)
}

// healthDue asks for a ping of an instance that has been idle.
type healthDue struct{ gen uint64 }

// watchHealth sets the alarm for the ping of an idle instance that is kept alive;
// work that comes before it makes it void.
func (c *connection) watchHealth(ctx *kernel.Context) {
	c.health.Stop()
	c.healthGen++
	if c.spec.HealthEvery > 0 && c.spec.Lifecycle == messages.LifecycleKeepAlive {
		c.health = ctx.After(c.spec.HealthEvery, &healthDue{c.healthGen})
	}
}

func (c *connection) onHealthDue(ctx *kernel.Context, m *healthDue) {
	if m.gen != c.healthGen || c.state != messages.StateIdle || !c.ready {
		return
	}
	if c.ping == nil {
		c.sendPing(ctx)
	}
	c.watchHealth(ctx)
}

// sendPing asks a child that let a request time out, or was idle for long, whether it
// lives. Any
// message from it is an answer. Modern children have no ping and are asked to
// introduce themselves.
func (c *connection) sendPing(ctx *kernel.Context) {
	method := methodPing
	if c.hs.era == messages.EraModern {
		method = methodDiscover
	}
	c.giveUpAside(ctx, c.pinged, "another one follows")
	c.pinged = c.aside(ctx, method, nil)
	c.pings++
	c.ping = ctx.After(pingTimeout, &pingDue{c.run.n, c.pings})
}

func (c *connection) timeoutError(p *pending) *messages.Error {
	after, more := p.timeout, "A longer timeoutMs gives it more time."
	if !p.deadline.Before(p.limit) {
		after = p.limit.Sub(p.since).Round(time.Millisecond)
		if c.spec.MaxTimeout > 0 {
			more = "It had all the time that a call may have: only the user can give it more, with maxTimeoutMs of the server's entry."
		}
	}
	return &messages.Error{
		Code: messages.CodeExecutionTimeout, Server: c.spec.Name, Tool: p.call.Tool, Class: messages.ClassOffline,
		Message: strconv.Quote(c.spec.Name) + " did not answer within " + after.String() + "; the request was cancelled, whether it took effect is unknown",
		Hint:    "Check what the call may have done before you repeat it. " + more,
	}
}

// waitedTooLong is for a call whose time was over before the child got it.
func (c *connection) waitedTooLong(w *messages.Call) *messages.Error {
	if c.ready && c.asker.Load() && !c.itsTurn(w) {
		return c.noTurn(w)
	}
	if c.ready && !c.gated(w) {
		return c.busy(w)
	}
	if c.ready {
		return c.notJudgedInTime(w)
	}
	if c.state == messages.StateIdle {
		return notStarted(c.spec.Name, w.Tool, c.deps.status(c.spec.Name))
	}
	if c.run != nil && c.run.startup == nil {
		return c.noTurnToStart(w)
	}
	return &messages.Error{
		Code: messages.CodeExecutionTimeout, Server: c.spec.Name, Tool: w.Tool, Class: messages.ClassOffline, Retryable: true,
		Message: strconv.Quote(c.spec.Name) + " was not ready in the time that the call allowed; the call was not sent",
		Hint:    "Call again with a longer timeoutMs.", // the start has more time left
		Details: supervision.LogEnd(c.said()),
	}
}
