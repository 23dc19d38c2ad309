package actors

import (
	"strconv"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// maxDeparted bounds the calls that are remembered after they have left.
const maxDeparted = 64

// departed are the last calls that have left a connection, and the client's request that
// each was of. A child's answer names the call alone, and for the calls of a script that
// is another number.
type departed struct {
	calls  []departure
	oldest int // of calls, where there is no room for more
}

type departure struct{ call, request uint64 }

func (d *departed) add(call *messages.Call) {
	one := departure{call.ID, call.Trace}
	if len(d.calls) < maxDeparted {
		d.calls = append(d.calls, one)
		return
	}
	d.calls[d.oldest] = one
	d.oldest = (d.oldest + 1) % maxDeparted
}

// request is the request that a call was of; false: that is not known any more.
func (d *departed) request(call uint64) (uint64, bool) {
	for _, one := range d.calls {
		if one.call == call {
			return one.request, true
		}
	}
	return 0, false
}

// giveUp remembers a call that the child may answer all the same. Many others may be
// answered before, so these have a place of their own.
func (c *connection) giveUp(call *messages.Call) { c.gaveUp.add(call) }

// onLate drops an answer to a request that is over: a second one, or one that crossed
// the end of what it answers. The trace has it with the client's request, and what
// answers nothing of a client's, or nobody knows of what, with the host's own work.
func (c *connection) onLate(ctx *kernel.Context, id uint64) {
	c.deps.late.Add(1)
	if !ctx.Tracing() {
		return
	}
	request, what := c.requestOf(id)
	ctx.Correlate(request) // and not with the one that the child has now
	ctx.Event("late", what, request)
}

// requestOf is the client's request behind the id of an answer that is late, and what the
// trace says of it.
func (c *connection) requestOf(id uint64) (request uint64, what string) {
	if id > internalID && id <= c.nextID { // a child may send any number
		return 0, "an answer to a request of the host's own that is over"
	}
	const over = "an answer to a request that is over"
	call := id & callMask
	if p := c.inflight[call]; p != nil { // of an earlier round
		return p.call.Trace, over
	}
	for _, d := range []*departed{&c.gaveUp, &c.left} {
		if request, known := d.request(call); known {
			return request, over
		}
	}
	if id >= internalID {
		call = id // none of a call
	}
	return 0, over + ", or that never was: number " + strconv.FormatUint(call, 10)
}
