package supervision

import (
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// endPatience is what the end of an instance may take beyond its ladder: a slow machine
// looks long for the processes, and a remote server may be slow to let its session go.
const endPatience = 5 * time.Second

func (b *breakerActor) onEvict(ctx *kernel.Context, m *messages.Evict) {
	for _, in := range b.idle {
		if in.lease == m.Lease {
			b.close(ctx, in, "evicted: "+m.Reason, nil)
			return
		}
	}
	for _, in := range b.instances {
		switch {
		case in.lease != m.Lease:
		case in.phase == phaseClosing || in.ending:
			return // it ends already, and Release follows
		case in.contact && in.phase != phaseWaiting:
			b.giveWay(ctx, in, m.Reason)
			return
		}
	}
	ctx.Send(b.pool, &messages.EvictRefused{Lease: m.Lease})
}

// close ends an instance for good. err is for the calls that it holds; with
// nil those that were not written come back and go elsewhere.
func (b *breakerActor) close(ctx *kernel.Context, in *instance, reason string, err *messages.Error) {
	if in.phase == phaseClosing {
		return
	}
	b.withdraw(ctx, in)
	b.unstack(in)
	watched := in.phase == phaseFailed
	in.phase = phaseClosing
	if in.lease != 0 {
		ctx.Send(b.pool, &messages.Ending{Lease: in.lease})
		if !watched {
			b.watchEnd(ctx, in)
		}
	}
	ctx.Send(in.pid, &messages.Close{Reason: reason, Err: err})
	b.cataloged = b.cataloged && b.others(in)
	b.publish()
}

// withdraw takes back an instance's wish for a place. A place that was granted
// meanwhile is released when [messages.Granted] comes.
func (b *breakerActor) withdraw(ctx *kernel.Context, in *instance) {
	if in.phase == phaseWaiting && in.ticket != 0 {
		ctx.Send(b.pool, &messages.Withdraw{Ticket: in.ticket})
	}
}

// watchEnd has an instance looked after some time after the ladder must have ended it.
func (b *breakerActor) watchEnd(ctx *kernel.Context, in *instance) {
	in.ends++
	ctx.After(ladderTime(in.grace)+endPatience, &stuckDue{in.n, in.ends, in.phase == phaseFailed})
}

// onStuckDue gives an instance up that nothing ends. Who waited for its end gets another
// one; its place is taken until it is gone, and nobody is to wait for that.
func (b *breakerActor) onStuckDue(ctx *kernel.Context, m *stuckDue) {
	in := b.instances[m.instance]
	if in == nil || in.ends != m.ends || in.ended || in.phase != phaseFailed && in.phase != phaseClosing {
		return
	}
	pid := in.gauge.PID.Load()
	// One without a process that was told to close may still wait for its turn to start.
	in.stuck = !in.old && (pid != 0 || m.lost)
	if pid != 0 {
		b.warn("a server does not end, though it was killed; its place stays taken until it does", "pid", pid,
			"hint", "Look for what holds the process: a disk or a network that does not answer, or that it is another user's.")
	}
	b.close(ctx, in, "it does not end", nil)
	ctx.Send(b.pool, &messages.EvictRefused{Lease: in.lease})
	b.flushHeld(ctx)
	b.serveContacts(ctx)
}

// stuck is how many instances have left something behind that does not end.
func (b *breakerActor) stuck() int {
	n := 0
	for _, in := range b.instances {
		if in.stuck {
			n++
		}
	}
	return n
}

func (b *breakerActor) unstack(in *instance) {
	for i := len(b.idle) - 1; i >= 0; i-- {
		if b.idle[i] == in {
			b.idle = append(b.idle[:i], b.idle[i+1:]...)
			return
		}
	}
}

func (b *breakerActor) onClosed(ctx *kernel.Context, n uint64) {
	in := b.instances[n]
	if in == nil {
		return
	}
	b.unstack(in)
	b.releaseProbe(in)
	b.heard = in.heard() || b.heard
	delete(b.instances, n)
	// What was sent to it before comes back before it stops.
	ctx.Finish(in.pid)
	if in.lease != 0 {
		ctx.Send(b.pool, &messages.Release{Lease: in.lease})
	}
	b.flushHeld(ctx)
	b.serveContacts(ctx)
	b.publish()
	b.leftIfEmpty(ctx)
}

// onTerminated cleans up after a connection that ended without saying so: it
// panicked, was stopped by this supervisor, and has killed its own tree.
func (b *breakerActor) onTerminated(ctx *kernel.Context, m kernel.Terminated) {
	for n, in := range b.instances {
		if in.pid.Id == m.Who.Id {
			now := time.Now()
			err := &messages.Error{
				Code: messages.CodeConnection, Server: b.spec.Name, Class: messages.ClassOther, Retryable: true,
				Message: "the connection to the server broke inside metamcp", Hint: "Please report this with the log of the host.",
			}
			switch {
			case b.leaving != nil:
				b.releaseProbe(in) // the host's time was over before that of its children
			case in.retire:
				b.tellDeath(true, err)
				b.releaseProbe(in)
			default:
				b.tellDeath(true, err)
				b.count(ctx, now, err, 0)
				b.died(ctx, now, err.Class, 0)
			}
			b.withdraw(ctx, in)
			b.unstack(in)
			in.phase = phaseClosing // it takes nothing any more
			b.publish()
			b.lostContacts(ctx, in, err)
			b.onClosed(ctx, n)
			return
		}
	}
}

// onStopping answers those who would otherwise wait for ever.
func (b *breakerActor) onStopping() {
	err := b.leaving
	if err == nil {
		err = ShuttingDown(b.spec.Name)
		b.leaving = err // messages still come until the children have stopped
	}
	for _, call := range b.held {
		b.refuse(call.Call, err)
	}
	b.held = nil
	b.answerContacts(err)
}
