package supervision

import (
	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// A server that keeps state for whoever uses it, as a browser does, may have an
// instance per client session (messages.ScopeSession): a session's calls, those of
// its scripts as well, reach its own instance and no other, and what is made
// without a session shares one. An instance takes a place of the pool like any
// other, and may be evicted when it is idle; it ends with its session.

// owner is whose instance a call of the session may have: 0 is everybody's. A
// session that is over owns nothing, since nobody would end what it owned.
func (b *breakerActor) owner(session uint64) uint64 {
	if b.spec.Scope != messages.ScopeSession || session == 0 || !b.deps.Open(session) {
		return 0
	}
	return session
}

// adopt gives a session that has no instance one that was only started to list its
// tools, and that nobody has called.
func (b *breakerActor) adopt(owner uint64) *instance {
	if owner == 0 {
		return nil
	}
	var found *instance
	for _, in := range b.instances {
		fresh := in.owner == 0 && !in.given() && !in.retire && in.phase != phaseFailed && in.phase != phaseClosing
		if fresh && (found == nil || in.n < found.n) {
			found = in
		}
	}
	if found != nil {
		found.owner = owner
		b.publish()
	}
	return found
}

// mates reports whether another instance could take this one's calls.
func (b *breakerActor) mates(but *instance) bool {
	for _, in := range b.instances {
		if in.owner == but.owner && b.serves(in, but) {
			return true
		}
	}
	return false
}

// heldFor reports whether a call is held that this instance would get.
func (b *breakerActor) heldFor(in *instance) bool {
	for _, call := range b.held {
		if b.owner(call.Session) == in.owner {
			return true
		}
	}
	return false
}

// onSessionOver ends what the session owned, when it is idle: its calls have been
// cancelled. Who waits for a listing of it gets that of another one.
func (b *breakerActor) onSessionOver(ctx *kernel.Context, session uint64) {
	owned := false
	for _, in := range b.instances {
		if in.owner != session {
			continue
		}
		owned, in.retire = true, true
		if in.phase == phaseIdle || in.phase == phaseWaiting {
			b.close(ctx, in, "its session is over", nil)
		} else {
			ctx.Send(in.pid, &messages.Finish{})
		}
	}
	if owned {
		b.publish()
		b.serveContacts(ctx)
	}
}
