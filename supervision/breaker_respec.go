package supervision

import (
	"cmp"
	"slices"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// onRespec takes a new configuration over. Children of the old one end when
// they are idle.
func (b *breakerActor) onRespec(ctx *kernel.Context, m *messages.Respec) {
	rescoped := b.spec.Scope != m.Spec.Scope
	b.spec = m.Spec
	if rescoped {
		b.retireAll(ctx, "its scope changed")
	}
	restart := m.Restart || m.Spec.Err != nil || m.Spec.Disabled
	if restart {
		b.policy.Reset()
		b.noScale, b.notScaled = time.Time{}, 0
		b.guess = messages.EraUnknown
		b.cataloged = false
		b.retireAll(ctx, "its configuration changed")
	} else {
		b.updateAll(ctx, m)
	}
	if restart || rescoped {
		b.serveContacts(ctx)
	}
	b.publish()
}

// updateAll gives a configuration to connections whose children may go on, and has
// those that are idle treated by it.
func (b *breakerActor) updateAll(ctx *kernel.Context, m *messages.Respec) {
	for _, in := range b.instances {
		if in.phase == phaseClosing {
			continue
		}
		ctx.Send(in.pid, m)
		if in.hash == m.Spec.Hash { // else the connection keeps what it has
			in.grace = b.spec.StopGrace
		}
		switch {
		case in.phase != phaseIdle:
		case b.ephemeral() && in.given() && len(b.contacts) == 0 && !in.keep:
			b.close(ctx, in, "ephemeral and idle", nil)
		default:
			if b.ephemeral() && !in.keep {
				ctx.After(ephemeralGrace, &ephemeralDue{in.n})
			}
			keepAlive, timeout := b.patience(in)
			ctx.Send(b.pool, &messages.IdleChanged{Lease: in.lease, KeepAlive: keepAlive, IdleTimeout: timeout})
		}
	}
	b.shrink(ctx)
}

func (b *breakerActor) retireAll(ctx *kernel.Context, reason string) {
	for _, in := range b.instances {
		in.old = true
		in.stuck = false // which says nothing of those to come
		b.retire(ctx, in, reason)
	}
}

// retire has an instance end once what its child works at is over. What waits for its
// start goes to another one, for which the breaker must be ready.
func (b *breakerActor) retire(ctx *kernel.Context, in *instance, reason string) {
	in.retire = true
	switch {
	case in.phase == phaseIdle, in.phase == phaseWaiting, in.phase == phaseConnecting && in.gauge.Load.Load() == 0:
		b.close(ctx, in, reason, nil)
		return
	case in.phase == phaseConnecting:
		ctx.Send(in.pid, &messages.ReturnCalls{}) // none where it has begun to work at them
	}
	ctx.Send(in.pid, &messages.Finish{})
}

// shrink retires what lives of an owner beyond the instances that the server may have: first
// those that nobody needs, then those with the least to do.
func (b *breakerActor) shrink(ctx *kernel.Context) {
	living := map[uint64][]*instance{}
	for _, in := range b.instances {
		if in.phase != phaseClosing && in.phase != phaseFailed && !in.retire {
			living[in.owner] = append(living[in.owner], in)
		}
	}
	need := func(in *instance) int { // of nobody, of subscribers, of calls
		switch {
		case in.phase != phaseIdle:
			return 2 + int(in.gauge.Load.Load())
		case in.keep:
			return 1
		}
		return 0
	}
	for _, of := range living {
		surplus := len(of) - max(1, b.spec.MaxInstances)
		if surplus <= 0 {
			continue
		}
		slices.SortFunc(of, func(x, y *instance) int {
			return cmp.Or(cmp.Compare(need(x), need(y)), cmp.Compare(y.n, x.n))
		})
		for _, in := range of[:surplus] {
			b.retire(ctx, in, "the server may have fewer instances now")
		}
	}
}

// leave refuses new calls, lets those in flight go on until the deadline, and
// ends every connection. What connections ask of their children by themselves is not
// waited for. removed: what no child has yet is refused as well, so that none is started.
func (b *breakerActor) leave(ctx *kernel.Context, why *messages.Error, deadline time.Time, removed bool) {
	if b.leaving == nil || deadline.Before(b.deadline) {
		b.deadline = deadline
		ctx.After(time.Until(deadline), &leaveDue{})
	}
	b.leaving = why
	for _, in := range b.instances {
		in.retire = true
		if in.phase == phaseIdle || in.gauge.Load.Load() == 0 && in.phase != phaseReady || removed && in.phase == phaseWaiting {
			b.close(ctx, in, "leaving", why)
			continue
		}
		if removed && in.phase == phaseConnecting {
			ctx.Send(in.pid, &messages.ReturnCalls{}) // to be refused
		}
		ctx.Send(in.pid, &messages.Finish{})
	}
	b.flushHeld(ctx)
	b.answerContacts(why)
	b.onLeaveDue(ctx) // at once where there is no time left
	b.leftIfEmpty(ctx)
}

func (b *breakerActor) onLeaveDue(ctx *kernel.Context) {
	if b.leaving == nil || time.Now().Before(b.deadline) {
		return
	}
	for _, in := range b.instances {
		b.close(ctx, in, "leaving, and out of time", b.leaving)
	}
}

func (b *breakerActor) leftIfEmpty(ctx *kernel.Context) {
	if b.leaving == nil || len(b.instances) > 0 || b.told {
		return
	}
	b.told = true
	ctx.Send(b.pool, &drained{who: ctx.Self()})
}
