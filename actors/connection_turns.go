package actors

import (
	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// holdAsk keeps a request until only one client's calls are left.
func (c *connection) holdAsk(ctx *kernel.Context, f *messages.Frame) {
	c.asks.held = append(c.asks.held, f)
	if len(c.asks.held) == 1 {
		c.asks.gen++
		c.asks.timer = ctx.After(holdPatience, &heldAskDue{c.asks.gen})
	}
}

func (c *connection) onHeldAskDue(ctx *kernel.Context, m *heldAskDue) {
	if m.gen != c.asks.gen {
		return
	}
	held := c.asks.held
	c.asks.held = nil
	for _, f := range held {
		c.refuseAsk(ctx, f, rpcRefused, "calls of several clients are in flight, and nothing tells which of them this is asked for; it works when the call is made again")
	}
}

// settleHeld asks what was held back once it is clear whom.
func (c *connection) settleHeld(ctx *kernel.Context) {
	if _, several := c.callOf(&messages.Frame{}); several {
		return
	}
	held := c.asks.held
	c.asks.held = nil
	c.asks.timer.Stop()
	c.asks.gen++
	for _, f := range held {
		c.onAsk(ctx, f)
	}
}

// itsTurn says whether a call to a server that asks may go to the child now: what
// the child has is of the same client.
func (c *connection) itsTurn(call *messages.Call) bool {
	for _, p := range c.inflight {
		if !sameClient(p.call, call) {
			return false
		}
	}
	return true
}

// nextTurn follows the end of a call: what was held back is asked, and those go on
// whose turn has come.
func (c *connection) nextTurn(ctx *kernel.Context) {
	if len(c.asks.held) > 0 {
		c.settleHeld(ctx)
	}
	if len(c.waiters) == 0 {
		c.shares.rest()
		return
	}
	if c.turning || !c.ready || !c.asker.Load() && !c.shares.crowded {
		return
	}
	c.turning = true
	c.serveWaiters(ctx)
	c.turning = false
}
