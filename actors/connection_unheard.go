package actors

import (
	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// What a child changes while nobody listens to it nobody is told: its lists are read
// anew for that, once it is listened to again.

type acknowledgeDue struct{ run uint64 }

// answeredBefore takes notice of an answer of the child's that comes before it has
// acknowledged the subscription: of a change after that answer nobody may be told.
func (l *listening) answeredBefore(id uint64) {
	if l.in != 0 && !l.acked && listen(id) != l.in {
		l.unheard = true
	}
}

// onUnheard looks for what nobody heard of: at a modern child once it has acknowledged
// the subscription in the stream that the link has opened again.
func (c *connection) onUnheard(ctx *kernel.Context, m *runUnheard) {
	l := &c.watch.listen
	switch {
	case c.run == nil || m.run != c.run.n || !c.ready:
	case l.in == 0:
		c.listsChanged(ctx)
	default:
		l.unheard = true
		c.awaitAcknowledgement(ctx)
	}
}

// awaitAcknowledgement has what nobody heard of be looked for also where the child does
// not acknowledge a subscription, soon and then once a minute. One that does so later
// is asked once more then.
func (c *connection) awaitAcknowledgement(ctx *kernel.Context) {
	l := &c.watch.listen
	l.overdue.Stop()
	l.overdue = ctx.After(firstPause, &acknowledgeDue{c.run.n})
}

func (c *connection) onAcknowledgeDue(ctx *kernel.Context, m *acknowledgeDue) {
	l := &c.watch.listen
	if c.run == nil || m.run != c.run.n || l.overdue == nil {
		return
	}
	l.overdue = ctx.After(lastPause, &acknowledgeDue{c.run.n})
	if l.unheard || l.in == 0 {
		c.listsChanged(ctx)
	}
}

// listsChanged has all lists be read anew: nobody heard whether they changed. Those of
// resources and prompts, which others read, are told of as often as that of tools is read.
func (c *connection) listsChanged(ctx *kernel.Context) {
	c.relist.others = true
	c.listChanged(ctx)
}

// othersChanged tells that the lists of resources and prompts may be others.
func (c *connection) othersChanged(ctx *kernel.Context) {
	for _, of := range []struct {
		has    messages.Offers
		method string
	}{{messages.OffersResources, methodResourcesChanged}, {messages.OffersPrompts, methodPromptsChanged}} {
		if c.hs.offers.Has(of.has) {
			c.notice(ctx, of.method, nil)
		}
	}
}
