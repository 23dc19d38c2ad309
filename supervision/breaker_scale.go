package supervision

import (
	"cmp"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// Where a server may have several instances, one more is started for a call that finds
// the others busy. That is a favour which must not cost the call anything: those that
// are there can take it as well, so it goes to them where the new instance finds no
// place, does not start or is slow to, and then nothing is wrong with the server either.
// Calls that come meanwhile go to whichever has the least to do: all to one would keep
// them from those that are there in a moment, and one process each is not needed either.

const (
	// scaleWait is how long an additional instance waits for a place, and a call for
	// both that and the start. An idle connection that ends for it is mostly gone by
	// then, and most servers that are installed have started. From then on no call is
	// given to it before it is ready.
	scaleWait = 2 * time.Second
	// scalePause is how long a server whose additional instance found no place, or
	// did not start in time, does without another, at least.
	scalePause = time.Second
)

// scaleDue ends the wait for an additional instance.
type scaleDue struct{ instance uint64 }

// mayScale says whether one more instance may be started beside those that live.
func (b *breakerActor) mayScale(living int) bool {
	if living >= b.spec.MaxInstances {
		return false
	}
	now := time.Now()
	return now.After(b.noScale) && b.policy.StartDelay(now) == 0 && b.stuck() == 0
}

// scale starts an additional instance; nil: that cannot be.
func (b *breakerActor) scale(ctx *kernel.Context, owner uint64) *instance {
	in := b.start(ctx, owner)
	if in != nil {
		in.extra = true
		ctx.After(scaleWait, &scaleDue{in.n})
	}
	return in
}

// soon reports whether a call may go to an instance as to any other: one that is connected,
// or an additional one that is to be in a moment. While none other is started since one
// was not, calls wait for none either.
func (b *breakerActor) soon(in *instance) bool {
	if !in.extra || in.phase == phaseReady {
		return in.phase == phaseReady
	}
	now := time.Now()
	return now.Sub(in.spawned) < scaleWait && now.After(b.noScale)
}

// onScaleDue gives an additional instance up that has no place yet. One that has begun to
// start goes on, since others may need it later, without the calls that wait for it.
func (b *breakerActor) onScaleDue(ctx *kernel.Context, m *scaleDue) {
	in := b.instances[m.instance]
	switch {
	case in == nil:
	case in.phase == phaseWaiting && b.mates(in):
		b.noPlace(ctx, in)
	case in.phase == phaseConnecting && b.additional(in):
		b.pauseScaling(scalePause) // or its calls would wait for the start of yet another
		b.giveBack(ctx, in)
	}
}

// giveBack has the calls that wait for an instance's start come back. The start goes on,
// unless it is of a configuration before and of no use to others.
func (b *breakerActor) giveBack(ctx *kernel.Context, in *instance) {
	if in.retire {
		b.close(ctx, in, "no longer wanted", nil)
		return
	}
	ctx.Send(in.pid, &messages.ReturnCalls{})
}

// pauseScaling has no additional instance started for some time.
func (b *breakerActor) pauseScaling(d time.Duration) {
	if until := time.Now().Add(d); until.After(b.noScale) {
		b.noScale = until
	}
}

// noPlace gives an additional instance up that has found no place.
func (b *breakerActor) noPlace(ctx *kernel.Context, in *instance) {
	b.releaseContact(in)
	b.pauseScaling(scalePause)
	b.close(ctx, in, "no place for another instance", nil)
}

// relieve takes the calls back from an instance that is not ready, for one of the same owner
// that has become idle. One that has no place yet is given up. It is before the pool hears of
// the idle one, which could be evicted for the very place that the other waits for. The calls
// have waited once, so that none of them has yet another instance started.
func (b *breakerActor) relieve(ctx *kernel.Context, idle *instance) {
	var first *instance
	for _, in := range b.instances {
		waits := in.phase == phaseWaiting || in.phase == phaseConnecting && in.gauge.Load.Load() > 0
		if waits && in.owner == idle.owner && (first == nil || cmp.Or(cmp.Compare(in.phase, first.phase), cmp.Compare(in.n, first.n)) < 0) {
			first = in
		}
	}
	if first == nil {
		return
	}
	b.pauseScaling(scalePause)
	if first.phase == phaseConnecting {
		b.giveBack(ctx, first)
		return
	}
	b.releaseContact(first)
	b.close(ctx, first, "another instance is idle", nil)
}

// additional reports whether another instance that is connected serves whom in serves.
func (b *breakerActor) additional(in *instance) bool {
	for _, mate := range b.instances {
		if mate.owner == in.owner && mate.phase != phaseConnecting && b.serves(mate, in) {
			return true
		}
	}
	return false
}

// onNotScaled gives an additional instance up whose start failed. That says nothing of
// the server, whose other instances take its calls.
func (b *breakerActor) onNotScaled(ctx *kernel.Context, in *instance, returned []messages.ReturnedCall, err *messages.Error) {
	b.notScaled++
	b.pauseScaling(max(scalePause, Backoff{}.Delay(b.notScaled, b.deps.Random)))
	b.warn("another instance of a server did not start; it goes on with those that it has", "error", err.Message, "hint", err.Hint)
	b.releaseProbe(in)
	b.close(ctx, in, "another instance that did not start", nil)
	b.lostContacts(ctx, in, err)
	for _, rc := range returned {
		b.onCall(ctx, rc.Call)
	}
}
