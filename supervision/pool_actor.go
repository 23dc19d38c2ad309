package supervision

import (
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// PoolDeps is what the pool needs from the rest of the host.
type PoolDeps struct {
	Directory *Directory
	Breakers  *BreakerDeps
}

// PoolSettings are the pool's parameters and those of all breakers.
type PoolSettings struct {
	Pool             PoolConfig
	FailureThreshold int
	Cooldown         time.Duration
	// SessionCalls bounds the calls of one client that are in flight; 0: nothing does.
	SessionCalls int
	// Flaps is how many deaths within FlapWindow put a server into quarantine; 0: no
	// number does.
	Flaps      int
	FlapWindow time.Duration
}

// What the host says to the pool.
type (
	// AddServers makes servers known. One that is known already is changed.
	AddServers struct{ Specs []*messages.ServerSpec }
	// ChangeServer gives a known server a new configuration.
	ChangeServer struct {
		Spec    *messages.ServerSpec
		Restart bool
	}
	// MoveServers gives servers a configuration that says the same in another place of
	// its file, which only those who are sent there need to know.
	MoveServers struct{ Specs []*messages.ServerSpec }
	// RemoveServers ends servers; calls in flight have Drain to finish.
	RemoveServers struct {
		Names []string
		Drain time.Duration
	}
	// Configure changes the parameters.
	Configure struct{ Settings PoolSettings }
	// Shutdown ends all servers: calls in flight have until Deadline, then
	// every child ends. Done is closed when nothing is left of any. A second
	// Shutdown with an earlier deadline shortens the first; each Done is closed.
	Shutdown struct {
		Deadline time.Time
		Done     chan<- struct{}
	}
	// Squeeze evicts some of what is idle, since memory is short. Evicted, where not
	// nil, is told how many; it must not block.
	Squeeze struct{ Evicted func(n int) }
	// InspectPool asks for the numbers; Reply must have room for one.
	InspectPool struct{ Reply chan<- PoolReport }
)

type (
	breakerSettings struct{ PoolSettings }
	// drained says that a breaker has no connection left.
	drained struct{ who *kernel.PID }
	wakeDue struct{ gen uint64 }
)

// poolActor is the top supervisor: it owns the places that connections live
// on, and it is the parent of the breakers, one per server. Its supervisor
// resumes it after a panic, since a restart would end every child.
type poolActor struct {
	deps     *PoolDeps
	settings PoolSettings
	pool     *Pool

	tickets atomic.Uint64
	last    uint64 // breakers ever made
	// Who asked for a ticket and who holds a lease.
	askers map[uint64]asker

	evictions uint64
	holders   map[uint64]*kernel.PID
	// Who waits for a lease's end; see makeRoom.
	squeezed map[uint64]*makeRoom

	// removed are the numbers of instances of servers that are not there now, by
	// name. What the index says of one may come when nothing else is left of it.
	removed map[string]*atomic.Uint64

	leaving map[string]*kernel.PID // breakers by id, told to leave and not yet empty
	ending  []chan<- struct{}      // of Shutdown
	closing bool

	wake  time.Time
	gen   uint64
	timer *kernel.Timer
}

// NewPoolActor returns the producer of the pool actor.
func NewPoolActor(deps *PoolDeps, settings PoolSettings) func() kernel.Actor {
	return func() kernel.Actor {
		return &poolActor{
			deps: deps, settings: settings, pool: NewPool(settings.Pool),
			askers: map[uint64]asker{}, holders: map[uint64]*kernel.PID{}, squeezed: map[uint64]*makeRoom{}, leaving: map[string]*kernel.PID{},
			removed: map[string]*atomic.Uint64{},
		}
	}
}

// Receive implements kernel.Actor.
func (p *poolActor) Receive(ctx *kernel.Context, msg any) {
	now := time.Now()
	switch m := msg.(type) {
	case *messages.Used:
		if m.Contact {
			p.apply(ctx, p.pool.UsedForContact(now, m.Lease))
			return
		}
		p.apply(ctx, p.pool.Used(now, m.Lease))
	case *messages.Wanted:
		p.apply(ctx, p.pool.Wanted(now, m.Lease))
	case *messages.Unused:
		p.apply(ctx, p.pool.Idle(now, m.Lease, IdleOptions{KeepAlive: m.KeepAlive, IdleTimeout: m.IdleTimeout, Since: m.Since}))
	case *messages.IdleChanged:
		p.apply(ctx, p.pool.IdleChanged(now, m.Lease, IdleOptions{KeepAlive: m.KeepAlive, IdleTimeout: m.IdleTimeout}))
	case *reserveFrom:
		p.askers[m.Ticket] = asker{m.from, m.Meta}
		if m.Contact {
			p.apply(ctx, p.pool.AcquireForContact(now, m.Ticket, m.Server, m.Of()))
			return
		}
		p.apply(ctx, p.pool.Acquire(now, m.Ticket, m.Server, m.Of(), m.Deadline))
	case *messages.Join:
		if m.Contact {
			p.apply(ctx, p.pool.JoinForContact(now, m.Ticket, m.Of()))
			return
		}
		p.apply(ctx, p.pool.Join(now, m.Ticket, m.Of()))
	case *messages.Withdraw:
		delete(p.askers, m.Ticket)
		p.apply(ctx, p.pool.Withdraw(now, m.Ticket))
	case *messages.Ending:
		p.apply(ctx, p.pool.Ending(now, m.Lease))
	case *messages.Release:
		p.release(ctx, now, m.Lease)
	case *messages.EvictRefused:
		if m.Contact {
			p.apply(ctx, p.pool.EvictRefusedForContact(now, m.Lease))
		} else {
			p.apply(ctx, p.pool.EvictRefused(now, m.Lease))
		}
		p.roomMade(ctx, m.Lease)
	case *makeRoom:
		p.onMakeRoom(ctx, now, m)
	case *wakeDue:
		if m.gen != p.gen {
			return
		}
		p.wake = time.Time{}
		p.apply(ctx, p.pool.Tick(now))
	case *AddServers:
		p.add(ctx, m)
	case *ChangeServer:
		p.change(ctx, m)
	case *MoveServers:
		p.move(m)
	case *RemoveServers:
		p.remove(ctx, m)
	case *Configure:
		p.configure(ctx, now, m)
	case *Shutdown:
		p.shutdown(ctx, m)
	case *Squeeze:
		acts := p.pool.Squeeze(now)
		p.apply(ctx, acts)
		if m.Evicted != nil {
			m.Evicted(len(acts))
		}
	case *drained:
		p.onDrained(ctx, now, m)
	case *InspectPool:
		m.Reply <- PoolReport{PoolStats: p.pool.Stats(), Config: p.pool.Config(), Evictions: p.evictions}
	case kernel.Stopping:
		p.timer.Stop()
	}
}

// asker is who asked for a place, and for which request.
type asker struct {
	pid  *kernel.PID
	meta messages.Meta
}

// reserveFrom is a Reserve with its sender, which the mailbox does not tell.
type reserveFrom struct {
	*messages.Reserve
	from *kernel.PID
}

// apply carries out what the pool decided and sets the alarm anew.
func (p *poolActor) apply(ctx *kernel.Context, actions []Action) {
	for _, a := range actions {
		switch a := a.(type) {
		case Grant:
			asker := p.askers[a.Ticket]
			delete(p.askers, a.Ticket)
			if ctx.Tracing() {
				ctx.Event("lease", a.Server+" #"+strconv.FormatUint(a.Lease, 10)+" after "+a.Waited.String(), asker.meta.Trace)
			}
			p.holders[a.Lease] = asker.pid
			ctx.Send(asker.pid, &messages.Granted{Meta: asker.meta, Ticket: a.Ticket, Lease: a.Lease, Contact: a.Contact})
		case Refuse:
			asker := p.askers[a.Ticket]
			delete(p.askers, a.Ticket)
			ctx.Send(asker.pid, &messages.ReserveRefused{Meta: asker.meta, Ticket: a.Ticket, Err: a.Err})
		case TurnAway:
			ctx.Send(p.askers[a.Ticket].pid, &messages.TurnAway{Ticket: a.Ticket, Client: a.Client, Contact: a.Contact, Before: a.Before, Err: a.Err})
		case Evict:
			p.evictions++
			if ctx.Tracing() {
				ctx.Event("evict", a.Server+" #"+strconv.FormatUint(a.Lease, 10)+" ("+string(a.Reason)+")", 0)
			}
			ctx.Send(p.holders[a.Lease], &messages.Evict{Lease: a.Lease, Reason: string(a.Reason)})
		}
	}
	next, ok := p.pool.NextWake()
	if !ok || !p.wake.IsZero() && !next.Before(p.wake) {
		return // an alarm that goes off for nothing finds the next one
	}
	p.timer.Stop()
	p.gen++
	p.wake = next
	p.timer = ctx.After(time.Until(next), &wakeDue{p.gen})
}

func (p *poolActor) add(ctx *kernel.Context, m *AddServers) {
	if p.closing {
		return
	}
	var fresh []*messages.ServerSpec
	for _, spec := range m.Specs {
		if _, there := p.deps.Directory.Lookup(spec.Name); there {
			p.change(ctx, &ChangeServer{Spec: spec, Restart: true})
			continue
		}
		fresh = append(fresh, spec)
	}
	p.spawn(ctx, fresh)
}

// spawn starts the breakers of new servers and puts them into the directory
// at once: a directory of thousands is copied once, not once a server.
func (p *poolActor) spawn(ctx *kernel.Context, specs []*messages.ServerSpec) {
	entries := make(map[string]*Entry, len(specs))
	for _, spec := range specs {
		p.last++
		e := &Entry{connected: &p.deps.Directory.connected, instances: p.removed[spec.Name]}
		if e.instances == nil {
			e.instances = new(atomic.Uint64)
		}
		e.spec.Store(spec)
		e.status.Store(&messages.Status{})
		name := "breaker/" + url.PathEscape(spec.Name) + "~" + strconv.FormatUint(p.last, 10)
		pid, err := ctx.Spawn(name, func() kernel.Actor {
			return newBreakerActor(p.deps.Breakers, e, &p.settings, &p.tickets)
		}, kernel.Inline(), kernel.Supervise(superviseConnections()))
		if err != nil {
			ctx.Event("spawn-failed", err.Error(), 0)
			continue
		}
		e.Breaker = pid
		delete(p.removed, spec.Name)
		entries[spec.Name] = e
	}
	p.deps.Directory.replace(func(m map[string]*Entry) {
		for name, e := range entries {
			m[name] = e
		}
	})
}

// connectionPanics is how often a connection may panic. It is more than one
// needs that ends its child after each, so that only a loop meets it.
const connectionPanics = 50

// superviseConnections resumes a connection that panicked, since it alone can
// give its calls back and end its child; one that goes on panicking is stopped.
func superviseConnections() kernel.Decide {
	strategy := NewOneForOne(connectionPanics, DefaultFailureWindow, func(any) kernel.Directive { return kernel.Resume })
	return func(child string, reason any) kernel.Directive {
		d := strategy.Decide(child, reason, time.Now())
		if d == kernel.Escalate {
			d = kernel.Stop
		}
		return d
	}
}

func (p *poolActor) change(ctx *kernel.Context, m *ChangeServer) {
	if p.closing {
		return
	}
	e, ok := p.deps.Directory.Lookup(m.Spec.Name)
	if !ok {
		p.spawn(ctx, []*messages.ServerSpec{m.Spec})
		return
	}
	p.deps.Directory.respec(e, m.Spec)
	ctx.Send(e.Breaker, &messages.Respec{Spec: m.Spec, Restart: m.Restart})
}

func (p *poolActor) move(m *MoveServers) {
	for _, spec := range m.Specs {
		if e, ok := p.deps.Directory.Lookup(spec.Name); ok {
			p.deps.Directory.respec(e, spec)
		}
	}
}

// remove takes servers out of the directory, which is copied once for all of them,
// before any of them hears of it.
func (p *poolActor) remove(ctx *kernel.Context, m *RemoveServers) {
	if p.closing {
		return // they leave with all others, if they have not yet
	}
	gone := make(map[string]*Entry, len(m.Names))
	for _, name := range m.Names {
		if e, ok := p.deps.Directory.Lookup(name); ok {
			gone[name] = e
		}
	}
	if len(gone) == 0 {
		return
	}
	p.deps.Directory.replace(func(all map[string]*Entry) {
		for name := range gone {
			delete(all, name)
		}
	})
	for name, e := range gone {
		p.leaving[e.Breaker.Id] = e.Breaker
		p.removed[name] = e.instances
		ctx.Send(e.Breaker, &messages.Retire{Drain: m.Drain})
	}
}

func (p *poolActor) configure(ctx *kernel.Context, now time.Time, m *Configure) {
	p.settings = m.Settings
	for _, name := range p.deps.Directory.Names() {
		if e, ok := p.deps.Directory.Lookup(name); ok {
			ctx.Send(e.Breaker, &breakerSettings{m.Settings})
		}
	}
	p.apply(ctx, p.pool.Reconfigure(now, m.Settings.Pool))
}

func (p *poolActor) shutdown(ctx *kernel.Context, m *Shutdown) {
	p.ending = append(p.ending, m.Done)
	if !p.closing {
		p.closing = true
		for _, name := range p.deps.Directory.Names() {
			if e, ok := p.deps.Directory.Lookup(name); ok {
				p.leaving[e.Breaker.Id] = e.Breaker
			}
		}
	}
	// Servers that were removed before and still have calls are among them.
	for _, breaker := range p.leaving {
		ctx.Send(breaker, &messages.Drain{Deadline: m.Deadline})
	}
	p.tellIfDone()
}

func (p *poolActor) release(ctx *kernel.Context, now time.Time, lease uint64) {
	delete(p.holders, lease)
	p.apply(ctx, p.pool.Release(now, lease))
	p.roomMade(ctx, lease)
}

func (p *poolActor) onDrained(ctx *kernel.Context, now time.Time, m *drained) {
	delete(p.leaving, m.who.Id)
	ctx.Stop(m.who)
	// A place that was granted while the breaker's last instance ended reaches nobody.
	var lost []uint64
	for lease, holder := range p.holders {
		if holder.Id == m.who.Id {
			lost = append(lost, lease)
		}
	}
	for _, lease := range lost {
		p.release(ctx, now, lease)
	}
	p.tellIfDone()
}

func (p *poolActor) tellIfDone() {
	if !p.closing || len(p.leaving) > 0 {
		return
	}
	for _, done := range p.ending {
		close(done)
	}
	p.ending = nil
}
