package actors

import (
	"slices"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// maxAsides bounds the asides that a child has not answered.
const maxAsides = 64

// aside is a request of the connection's own whose answer changes nothing. A child may
// leave it unanswered and live; it is given up then, so that nothing of it stays here or
// in the link, and an answer that comes all the same is one to a request that is over.
type aside struct {
	id  uint64
	due time.Time
}

// aside sends such a request. The child has as long for it as for a call; where it has
// left too many unanswered, the oldest is given up sooner.
func (c *connection) aside(ctx *kernel.Context, method string, params []byte) uint64 {
	if len(c.asides) >= maxAsides {
		c.giveUpAside(ctx, c.asides[0].id, "too many requests are unanswered")
	}
	var id uint64
	id = c.request(ctx, method, params, func(*kernel.Context, *messages.Frame) { c.forgetAside(id) })
	due := time.Now().Add(c.spec.Timeout)
	c.asides = append(c.asides, aside{id, due})
	c.arm(ctx, due)
	return id
}

// forgetAside says whether the aside was still open.
func (c *connection) forgetAside(id uint64) bool {
	n := len(c.asides)
	c.asides = slices.DeleteFunc(c.asides, func(a aside) bool { return a.id == id })
	return len(c.asides) < n
}

// giveUpAside ends an aside that is still open.
func (c *connection) giveUpAside(ctx *kernel.Context, id uint64, why string) {
	if c.forgetAside(id) {
		delete(c.internal, id)
		c.sendInternal(ctx, cancelledLine(id, why))
	}
}

// asidesDue gives up the asides whose time is over, and calls later with the end of that
// of the others.
func (c *connection) asidesDue(ctx *kernel.Context, now time.Time, later func(time.Time)) {
	for _, a := range slices.Clone(c.asides) {
		if a.due.After(now) {
			later(a.due)
			continue
		}
		c.giveUpAside(ctx, a.id, "timed out")
	}
}
