package supervision

import (
	"slices"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// onCall picks a connection for a call, or refuses it.
func (b *breakerActor) onCall(ctx *kernel.Context, call *messages.Call) {
	if call.Cancelled != nil && call.Cancelled.Load() {
		b.refuse(call, Cancelled(call))
		return
	}
	if err := b.unusable(); err != nil {
		b.refuse(call, err)
		return
	}
	if !b.passes(call) {
		b.refuse(call, b.policy.Refusal(time.Now(), b.spec.Name))
		return
	}
	b.cause = wish{Meta: call.Meta}
	in := b.pick(ctx, call.Session)
	if in == nil {
		b.hold(ctx, call)
		return
	}
	if call.Probe {
		b.probeMark = in.n
	}
	b.give(ctx, in, call)
}

func (b *breakerActor) give(ctx *kernel.Context, in *instance, call *messages.Call) {
	b.busy(ctx, in, false)
	b.wanted(ctx, in)
	in.dispatched++
	in.used = in.used || !call.Upkeep
	if in.phase == phaseWaiting {
		call.Since = time.Now()
		if in.fresh {
			call.Since = in.spawned // before the pool counts the time of its client
		}
		b.join(ctx, in, wish{Meta: call.Meta})
	}
	ctx.Send(in.pid, call)
}

// pick chooses among the instances that serve the session: the one that was idle
// last, else a new one where the server may have more, else the better one. nil means that
// a dying instance has to be waited for, or that no other can be started.
func (b *breakerActor) pick(ctx *kernel.Context, session uint64) *instance {
	owner := b.owner(session)
	for i := len(b.idle) - 1; i >= 0; i-- {
		if in := b.idle[i]; !in.retire && in.owner == owner {
			return in
		}
	}
	var best *instance
	living, failed := 0, false
	for _, in := range b.instances {
		switch {
		case in.phase == phaseClosing || in.retire || in.owner != owner:
			continue
		case in.phase == phaseFailed:
			failed = true
			living++
			continue
		}
		living++
		if best == nil || b.better(in, best) {
			best = in
		}
	}
	if best == nil {
		if failed {
			return nil
		}
		if in := b.adopt(owner); in != nil {
			return in
		}
		if b.stuck() >= maxStuck {
			return nil
		}
		return b.start(ctx, owner)
	}
	// One that only lists its tools takes the call at once, and could be ended for the
	// place of another one.
	busy := best.phase == phaseReady && best.given() && !best.contact
	if busy && b.mayScale(living) {
		if in := b.scale(ctx, owner); in != nil {
			return in
		}
	}
	return best
}

// better reports whether a call is to go to in rather than to other: to one that may be
// waited for, else to one that no call has yet, else to the one with the least to do.
func (b *breakerActor) better(in, other *instance) bool {
	if soon := b.soon(in); soon != b.soon(other) {
		return soon
	}
	if in.contact != other.contact {
		return in.contact
	}
	return lessToDo(in, other)
}

// lessToDo reports whether an instance has fewer calls than another; the older one of
// equal ones counts as having fewer.
func lessToDo(in, other *instance) bool {
	load, least := in.gauge.Load.Load(), other.gauge.Load.Load()
	return load < least || load == least && in.n < other.n
}

// start makes a new instance. It takes calls at once and keeps them until it
// has a place, a process and a handshake.
func (b *breakerActor) start(ctx *kernel.Context, owner uint64) *instance {
	in := &instance{n: b.entry.instances.Add(1), owner: owner, spawned: time.Now(), hash: b.spec.Hash, grace: b.spec.StopGrace, cause: wish{b.cause.Origin(), b.cause.contact}, fresh: true}
	in.gauge.tally = &b.entry.tally
	pid, err := b.deps.SpawnConnection(ctx, b.spec, in.n, &in.gauge)
	if err != nil {
		ctx.Event("spawn-failed", err.Error(), 0)
		return nil
	}
	in.pid = pid
	b.instances[in.n] = in
	if d := b.policy.StartDelay(time.Now()); d > 0 {
		ctx.After(d, &startDue{in.n})
	} else {
		b.reserve(ctx, in)
	}
	return in
}

// reserve has an instance wait for a place, for all who want it. A call that is among them
// comes first, since it may wait where a contact may not.
func (b *breakerActor) reserve(ctx *kernel.Context, in *instance) {
	if i := slices.IndexFunc(in.also, func(w wish) bool { return !w.contact }); i >= 0 && in.cause.contact {
		in.also[i], in.cause = in.cause, in.also[i]
	}
	in.ticket = b.tickets.Add(1)
	ctx.Send(b.pool, &reserveFrom{&messages.Reserve{
		// A place serves whoever calls the server, so no single call's
		// deadline ends the wait for it.
		Meta: in.cause.Meta, Ticket: in.ticket, Server: b.spec.Name, Contact: in.cause.contact,
	}, ctx.Self()})
	for _, who := range in.also {
		ctx.Send(b.pool, &messages.Join{Meta: who.Meta, Ticket: in.ticket, Contact: who.contact})
	}
	in.also = nil
}

// join has an instance wait for its place in the turns of one more request's client, and
// as a call's where that is one.
func (b *breakerActor) join(ctx *kernel.Context, in *instance, who wish) {
	of := who.Of()
	switch {
	case in.fresh:
		in.fresh = false // it was started for this very request
	case in.ticket != 0:
		ctx.Send(b.pool, &messages.Join{Meta: who.Origin(), Ticket: in.ticket, Contact: who.contact})
	case !slices.ContainsFunc(in.also, func(m wish) bool { return m.Of() == of && m.contact == who.contact }):
		in.also = append(in.also, wish{who.Origin(), who.contact})
	}
}

func (b *breakerActor) byTicket(t uint64) *instance {
	for _, in := range b.instances {
		if in.ticket == t && in.phase == phaseWaiting {
			return in
		}
	}
	return nil
}

func (b *breakerActor) onGranted(ctx *kernel.Context, m *messages.Granted) {
	in := b.byTicket(m.Ticket)
	if in == nil {
		ctx.Send(b.pool, &messages.Release{Lease: m.Lease})
		return
	}
	in.lease, in.phase, in.contact = m.Lease, phaseConnecting, m.Contact
	if in.given() || b.calledFor() {
		b.wanted(ctx, in) // by a call that came when the place was granted
	}
	ctx.Send(in.pid, &messages.Connect{Era: b.era()})
	b.publish()
}

// era is what the next start greets in: what the catalog knows, else what was
// not tried last.
func (b *breakerActor) era() messages.Era {
	if b.guess != messages.EraUnknown {
		return b.guess
	}
	return b.deps.Era(b.spec)
}

func (b *breakerActor) onReserveRefused(ctx *kernel.Context, m *messages.ReserveRefused) {
	in := b.byTicket(m.Ticket)
	if in == nil {
		return
	}
	if b.mates(in) {
		b.noPlace(ctx, in)
		return
	}
	first := b.waiting()
	b.releaseProbe(in)
	b.close(ctx, in, "no place in the pool", m.Err)
	if first == nil || first == in { // else that is the one which those who want the tools wait for
		b.lostContacts(ctx, in, m.Err)
	}
}

// onTurnAway answers some of those who wait for an instance's place, for whom that is
// over.
func (b *breakerActor) onTurnAway(ctx *kernel.Context, m *messages.TurnAway) {
	in := b.byTicket(m.Ticket)
	switch {
	case in == nil:
		return
	case b.mates(in):
		b.noPlace(ctx, in)
		return
	case !b.others(in) && b.waiting() == in: // which those who want the tools wait for
		b.turnContactsAway(m)
	}
	ctx.Send(in.pid, m)
}

// others reports whether another instance is in use, whoever it is for.
func (b *breakerActor) others(but *instance) bool {
	for _, in := range b.instances {
		if b.serves(in, but) {
			return true
		}
	}
	return false
}

// serves reports whether in takes calls and is not but.
func (b *breakerActor) serves(in, but *instance) bool {
	return in != but && !in.retire && (in.phase == phaseReady || in.phase == phaseIdle || in.phase == phaseConnecting)
}
