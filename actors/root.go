package actors

import (
	"slices"
	"strconv"
	"time"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// rootActor is the parent of all others. It resumes pool, index, notices, sandbox and
// provisioner after a panic, since their state is worth more than one message. Where
// one of them fails again and again it gives up: it says so, and goes on as well as it
// can, so that the host can let calls end and hand over what it has. Only when one
// fails again and again after that does everything stop. The actor of a client is
// resumed however often it fails: what one client brings about ends no host.
type rootActor struct {
	produceIndex       func() kernel.Actor
	producePool        func() kernel.Actor
	produceSandbox     func() kernel.Actor
	produceProvisioner func() kernel.Actor
	produceNotices     func() kernel.Actor
	spawned            func(s spawned, err error)
	strategy           *supervision.OneForOne // of the root's own mailbox
	ofPool             *supervision.OneForOne // of the pool's
	gaveUp             func(reason any)       // called once; nil: nobody hears it
	damaged            bool
	sessions           uint64
	sweepEvery         time.Duration
	sweep              *kernel.Timer
	sweeps             uint64 // of the timer
	index              *kernel.PID
}

// Names of the children of the root that live as long as it does; the others are
// those of sessions.
const (
	nameIndex       = "index"
	nameNotices     = "notices"
	nameSandbox     = "sandbox"
	nameProvisioner = "provisioner"
	namePool        = "pool"
)

var lasting = []string{nameIndex, nameNotices, nameSandbox, nameProvisioner, namePool}

// spawned are those that live as long as the root does.
type spawned struct{ index, pool, sandbox, provisioner, notices *kernel.PID }

type (
	// openSession starts the actor of a client connection.
	openSession struct {
		produce func(id uint64) kernel.Actor
		reply   chan<- sessionOpened
	}
	// sessionOpened is that actor, or why there is none.
	sessionOpened struct {
		pid *kernel.PID
		err *messages.Error
	}
	sweepDue struct{ n uint64 }
	// configureSweep is another distance between two sweeps of the catalog, the next
	// of which is that far away.
	configureSweep struct{ every time.Duration }
)

// Receive implements kernel.Actor.
func (r *rootActor) Receive(ctx *kernel.Context, msg any) {
	switch m := msg.(type) {
	case kernel.Started:
		s, err := r.spawn(ctx)
		r.spawned(s, err)
		if err != nil {
			return
		}
		r.index = s.index
		r.nextSweep(ctx)
	case *openSession:
		r.sessions++
		id := r.sessions
		pid, err := ctx.Spawn("session/"+strconv.FormatUint(id, 10), func() kernel.Actor { return m.produce(id) }, kernel.Inline())
		if err != nil {
			ctx.Event("spawn-failed", err.Error(), 0)
			m.reply <- sessionOpened{err: &messages.Error{
				Code: messages.CodeToolExecution, Message: "the actor of the session could not be started: " + err.Error(), Cause: err,
				Hint: "Please report this with the log of the host.",
			}}
			return
		}
		m.reply <- sessionOpened{pid: pid}
	case kernel.Stopping:
		r.sweep.Stop() // it would keep a closed engine in memory
	case *sweepDue:
		if m.n == r.sweeps {
			ctx.Send(r.index, &index.Sweep{})
			r.nextSweep(ctx)
		}
	case *configureSweep:
		if m.every != r.sweepEvery {
			r.sweepEvery = m.every
			r.sweep.Stop()
			r.nextSweep(ctx)
		}
	}
}

func (r *rootActor) nextSweep(ctx *kernel.Context) {
	r.sweeps++
	r.sweep = ctx.After(r.sweepEvery, &sweepDue{r.sweeps})
}

// resumes is a strategy that resumes what fails until it fails too often. It keeps a
// record, so each actor that supervises has its own.
func resumes() *supervision.OneForOne {
	return supervision.NewOneForOne(supervision.DefaultFailureLimit, supervision.DefaultFailureWindow, func(any) kernel.Directive { return kernel.Resume })
}

// decide is what becomes of a child that panicked.
func (r *rootActor) decide(child string, reason any) kernel.Directive {
	if !slices.Contains(lasting, child) {
		return kernel.Resume
	}
	d := r.strategy.Decide(child, reason, time.Now())
	if d == kernel.Escalate && r.giveUp(reason) {
		d = kernel.Resume
	}
	return d
}

// giveUp tells once that the host is damaged, and whether this was the time.
func (r *rootActor) giveUp(reason any) bool {
	if r.damaged {
		return false
	}
	r.damaged = true
	if r.gaveUp != nil {
		r.gaveUp(reason)
	}
	return true
}

func (r *rootActor) spawn(ctx *kernel.Context) (s spawned, err error) {
	if s.index, err = ctx.Spawn(nameIndex, r.produceIndex); err != nil {
		return s, err
	}
	if s.notices, err = ctx.Spawn(nameNotices, r.produceNotices, kernel.Inline()); err != nil {
		return s, err
	}
	// A run that breaks has answered when it is stopped; its worker goes
	// with it.
	if s.sandbox, err = ctx.Spawn(nameSandbox, r.produceSandbox, kernel.Inline()); err != nil {
		return s, err
	}
	if s.provisioner, err = ctx.Spawn(nameProvisioner, r.produceProvisioner); err != nil {
		return s, err
	}
	s.pool, err = ctx.Spawn(namePool, r.producePool, kernel.Inline(), kernel.Supervise(func(child string, reason any) kernel.Directive {
		return r.ofPool.Decide(child, reason, time.Now())
	}))
	return s, err
}
