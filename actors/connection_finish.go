package actors

import (
	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// onFinish is for a connection that gets no new calls and ends after those that it has.
func (c *connection) onFinish(ctx *kernel.Context) {
	c.finishing = true
	c.finish(ctx)
}

// finish has a connection that is to end be idle once no call needs it: what it asks of
// its child by itself, which may never answer, holds up no end. A listing that is given up
// so says nothing of the child, and nobody hears of it. One that is still being started
// for calls which were given up says that it has none, and its breaker ends it.
func (c *connection) finish(ctx *kernel.Context) {
	if !c.finishing || len(c.inflight)+len(c.waiters) > 0 {
		return
	}
	switch c.state {
	case messages.StateConnecting:
		c.tellIdle(ctx)
	case messages.StateActive:
		if l := c.listing; l != nil {
			l.due.Stop()
			delete(c.internal, l.id)
			c.sendInternal(ctx, cancelledLine(l.id, "nobody waits for it any more"))
			c.listing = nil
		}
		if c.to(ctx, supervision.EventLastRequestDone) {
			c.tellIdle(ctx)
		}
	case messages.StateIdle, messages.StateFailed, messages.StateClosed:
	}
}
