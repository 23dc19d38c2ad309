package supervision

import (
	"slices"
	"strconv"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// Whoever only wants the tools of servers, as a search does that does not know them yet,
// may have many started that never answer. Such a start is a guess, and a call is none: it
// has the place of one that no call has had since it was started, or was idle last and
// lists its tools anew (see [Pool]). What was begun goes on as long
// as nobody needs its place, also where nobody waits for it any more, since a download may
// be a part of it. Whoever names the server does not guess, and is served as a call is.

// wish is a request that wants an instance; contact: for the server's tools alone.
type wish struct {
	messages.Meta
	contact bool
}

// wishOf is what a contact wants.
func wishOf(m *messages.Contact) wish { return wish{m.Meta, !m.ForCall} }

// calledFor reports whether a call waits for a listing, or somebody who has named the server.
func (b *breakerActor) calledFor() bool {
	return slices.ContainsFunc(b.contacts, func(c *messages.Contact) bool { return c.ForCall })
}

// wanted takes an instance for a call whose place was for contacts alone.
func (b *breakerActor) wanted(ctx *kernel.Context, in *instance) {
	if in.contact {
		in.contact = false
		ctx.Send(b.pool, &messages.Wanted{Lease: in.lease})
	}
}

// giveWay ends an instance that only contacts want, for a call that needs its place. That
// it has not come further says nothing of the server.
func (b *breakerActor) giveWay(ctx *kernel.Context, in *instance, reason string) {
	b.releaseProbe(in)
	b.close(ctx, in, "evicted: "+reason, nil)
	b.lostContacts(ctx, in, &messages.Error{
		Code: messages.CodePoolSaturated, Server: b.spec.Name, Retryable: true,
		Message: "the server " + strconv.Quote(b.spec.Name) + " was ended before it had answered with its tools, since a request for another one needed its place",
		Hint:    "Ask again in some seconds, or call one of its tools, which has it started as well. The operator can raise pool.poolSize.",
	})
}
