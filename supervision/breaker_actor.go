package supervision

import (
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// Bounds of one breaker.
const (
	// maxHeld bounds the calls that wait for a lost connection's process tree
	// to be gone before it is started again.
	maxHeld = 4096
	// maxContacts bounds those who wait for a server's first listing.
	maxContacts = 4096
	// maxStuck bounds the places that a server's lost instances take which do not end:
	// beside so many no other one is started.
	maxStuck = 2
	// ephemeralGrace is how long an ephemeral instance that has only listed
	// its tools waits for the call that wanted them.
	ephemeralGrace = time.Second
)

// BreakerDeps is what breakers need from the rest of the host.
type BreakerDeps struct {
	// SpawnConnection starts a connection actor, IDLE, under the breaker. The gauge
	// is for the connection to publish how many calls it holds and which process.
	SpawnConnection func(ctx *kernel.Context, spec *messages.ServerSpec, instance uint64, gauge *Gauge) (*kernel.PID, error)
	// Era returns the protocol era that the server was last seen to speak.
	Era func(spec *messages.ServerSpec) messages.Era
	// Random feeds the jitter: a number in [0,1).
	Random func() float64
	// Open says whether a client's session is open still.
	Open func(session uint64) bool
	// Scrub returns an error without the secrets of the configuration.
	Scrub func(err *messages.Error) *messages.Error
	// Warn writes to the host's log what becomes of servers; nil: nobody reads it.
	Warn func(msg string, args ...any)
}

// breakerActor guards one server. It outlives the server's connections: it
// spawns and supervises them, picks the one that gets a call, refuses calls
// while the circuit is open, and decides what becomes of calls that a dying
// child left behind. It runs on its senders' goroutines and never blocks.
type breakerActor struct {
	ctx     *kernel.Context // valid while a message is handled
	deps    *BreakerDeps
	entry   *Entry
	spec    *messages.ServerSpec
	policy  *Breaker
	pool    *kernel.PID
	tickets *atomic.Uint64

	instances map[uint64]*instance
	idle      []*instance // LIFO
	held      []heldCall
	holds     uint64 // calls held, ever
	contacts  []*messages.Contact
	cataloged bool // the catalog has a listing of a living connection
	guess     messages.Era
	noScale   time.Time // until then no additional instance is started
	notScaled int       // additional instances in a row that did not start
	cause     wish      // the request that is being served, for new instances
	probeMark uint64    // instance that carries the half-open probe
	probeCall uint64    // call that is the probe; 0: a contact
	counted   time.Time // when a failed request was last counted
	heard     bool      // an instance that is gone has answered a call since a failure was counted
	aside     bool      // the log was told of a quarantine, and not yet of its end

	leaving  *messages.Error // set once the server is removed or the host ends
	deadline time.Time       // of leaving
	told     bool            // Drained was sent
	since    time.Time
}

// phase is what a breaker knows of an instance; it is coarser than the
// connection's own state, which only the connection knows for certain.
type phase uint8

const (
	phaseWaiting    phase = iota // for its start delay or for a place
	phaseConnecting              // has a place
	phaseReady                   // handshake over, calls dispatched
	phaseIdle                    // on the idle stack
	phaseFailed                  // its tree is being ended
	phaseClosing                 // told to close
)

type instance struct {
	n          uint64
	owner      uint64 // the session that it is for; 0: all
	pid        *kernel.PID
	phase      phase
	ticket     uint64
	lease      uint64
	cause      wish   // the request that it was started for
	fresh      bool   // nobody but that one waits for it yet
	also       []wish // one of each client that waits for it, while it has no ticket
	contact    bool   // no call has had it since it got its place or was idle last, and one that needs the place gets that
	dispatched uint64
	returned   uint64 // of those, what came back, or was for a process before this one
	answered   uint64
	seen       uint64 // of those that its gauge shows, when a failure was counted last
	troubled   bool   // a request of it failed and was counted, and none succeeded since
	gauge      Gauge
	spawned    time.Time
	extra      bool // one more beside those that were busy
	ready      time.Time
	retire     bool          // close when idle
	old        bool          // of a configuration before
	hash       string        // of the configuration that it was started with
	grace      time.Duration // what its ladder may take; see [Ladder]
	listing    bool          // its tools are on their way to the catalog
	unlisted   bool          // its child has not listed them, though it was asked
	squeezed   int           // how often in a row the system refused its start
	ends       int           // how often its end was watched
	ended      bool          // it failed and has nothing left
	ending     bool          // it failed, and the pool was told that its place comes free
	stuck      bool          // it has left something behind that does not end
	keep       bool          // somebody is subscribed to what it has
	used       bool          // somebody has used it since it was idle last, other than for upkeep
	rested     time.Time     // when it fell idle after that; zero: it never did
	// noRoom is why the system refused its start, while it waits for another
	// connection's end.
	noRoom *messages.Error
	// roomRequest numbers what the pool was asked for it: an answer that comes late is to none.
	roomRequest uint64
	// heldUntil is, by call, how long those may be held that waited for the start which
	// the system refused last.
	heldUntil map[uint64]time.Time
}

// given reports whether the instance has been given a call that did not come back.
func (in *instance) given() bool { return in.dispatched > in.returned }

// heldCall is a call that waits for an instance's end; hold tells it from the same call
// held before.
type heldCall struct {
	*messages.Call
	hold uint64
}

type (
	startDue struct{ instance uint64 }
	leaveDue struct{}
	// ephemeralDue ends the grace of an instance that has only listed.
	ephemeralDue struct{ instance uint64 }
	// heldDue ends the time of a call that is held; one that is held anew has a time anew.
	heldDue     struct{ hold uint64 }
	statusStale struct{}
	// stuckDue is when an instance that was to end, once more or for the first time, has
	// ended or does not.
	stuckDue struct {
		instance uint64
		ends     int
		lost     bool // by itself, so that it had begun to start at least
	}
)

func newBreakerActor(deps *BreakerDeps, entry *Entry, settings *PoolSettings, tickets *atomic.Uint64) *breakerActor {
	b := &breakerActor{
		deps: deps, entry: entry, spec: entry.Spec(), tickets: tickets,
		policy:    NewBreaker(settings.FailureThreshold, settings.Cooldown, deps.Random),
		instances: make(map[uint64]*instance),
		since:     time.Now(),
	}
	b.policy.Quarantine(settings.Flaps, settings.FlapWindow)
	return b
}

// StateName implements kernel.Stater. Only what an open breaker is depends on
// the time, and a trace asks twice for each message.
func (b *breakerActor) StateName() string {
	if s := b.policy.State(time.Time{}); s != BreakerOpen {
		return s.String()
	}
	return b.policy.State(time.Now()).String()
}

// Receive implements kernel.Actor.
func (b *breakerActor) Receive(ctx *kernel.Context, msg any) {
	b.ctx = ctx
	b.receive(ctx, msg)
	b.freeProbe()
}

func (b *breakerActor) receive(ctx *kernel.Context, msg any) {
	switch m := msg.(type) {
	case *messages.Call:
		b.onCall(ctx, m)
	case *messages.ConnectionIdle:
		b.onIdle(ctx, m)
	case *messages.ConnectionFree:
		b.onFree(ctx, m)
	case *messages.Cancel:
		b.onCancel(ctx, m)
	case *messages.Contact:
		b.onContact(ctx, m)
	case *messages.Granted:
		b.onGranted(ctx, m)
	case *messages.ReserveRefused:
		b.onReserveRefused(ctx, m)
	case *messages.TurnAway:
		b.onTurnAway(ctx, m)
	case *messages.Evict:
		b.onEvict(ctx, m)
	case *messages.ConnectionReady:
		b.onReady(ctx, m)
	case *messages.FirstSuccess:
		if in := b.instances[m.Instance]; in != nil {
			b.worked(ctx, in)
		}
	case *messages.ProbeOver:
		b.onProbeOver(ctx, m)
	case *messages.Cataloged:
		b.onCataloged(ctx, m)
	case *messages.ListingFailed:
		b.onListingFailed(ctx, m)
	case *messages.ConnectionFailed:
		b.onFailed(ctx, m)
	case *messages.ConnectionEnded:
		b.onEnded(ctx, m)
	case *messages.ConnectionClosed:
		b.onClosed(ctx, m.Instance)
	case *scaleDue:
		b.onScaleDue(ctx, m)
	case *stuckDue:
		b.onStuckDue(ctx, m)
	case *messages.RequestFailed:
		b.onRequestFailed(ctx, m)
	case *messages.CallReturned:
		b.onReturned(ctx, m)
	case *roomMade:
		b.onRoomMade(ctx, m)
	case *startDue:
		if in := b.instances[m.instance]; in != nil && in.phase == phaseWaiting && in.ticket == 0 {
			b.reserve(ctx, in)
		}
	case *messages.Respec:
		b.onRespec(ctx, m)
	case *messages.Retire:
		b.leave(ctx, NotFound(b.spec.Name, "it was removed from the configuration"), time.Now().Add(m.Drain), true)
	case *messages.Drain:
		b.leave(ctx, ShuttingDown(b.spec.Name), m.Deadline, false)
	case *leaveDue:
		b.onLeaveDue(ctx)
	case *messages.SessionOver:
		b.onSessionOver(ctx, m.Session)
	case *breakerSettings:
		b.policy.Reconfigure(m.FailureThreshold, m.Cooldown)
		b.policy.Quarantine(m.Flaps, m.FlapWindow)
	case *ephemeralDue:
		b.onEphemeralDue(ctx, m)
	case *heldDue:
		b.onHeldDue(m)
	case *statusStale:
		b.publish()
	case kernel.Started:
		b.pool = ctx.Parent()
		b.publish()
	case kernel.Terminated:
		b.onTerminated(ctx, m)
	case kernel.Stopping:
		b.onStopping()
	}
}

func (b *breakerActor) onReady(ctx *kernel.Context, m *messages.ConnectionReady) {
	in := b.instances[m.Instance]
	if in == nil || in.phase != phaseConnecting {
		return
	}
	in.phase, in.ready, in.listing, in.unlisted = phaseReady, time.Now(), true, false
	in.gauge.Unlisted.Store(nil) // which was of the child before
	in.squeezed, in.heldUntil, b.notScaled = 0, nil, 0
	b.guess = messages.EraUnknown
	b.entry.active.Store(true)
	b.publish()
	ctx.Event("ready", "", 0)
}

func (b *breakerActor) onIdle(ctx *kernel.Context, m *messages.ConnectionIdle) {
	in := b.instances[m.Instance]
	switch {
	case in == nil || m.Handled != in.dispatched:
		return
	case in.phase == phaseIdle && !m.Keep: // nobody was told of what it was at meanwhile
		b.onFree(ctx, &messages.ConnectionFree{Instance: in.n})
		return
	case in.phase == phaseWaiting && in.dispatched > 0 && !b.awaited():
		// A place that came to it would be taken from those who wait still.
		b.close(ctx, in, "nobody waits for it", nil)
		b.answerContacts(givenUp(b.spec.Name)) // or another would be started for them
		return
	case in.phase == phaseConnecting && in.retire:
		b.close(ctx, in, "nobody waits for it", nil)
		return
	case in.phase != phaseReady:
		return
	}
	if b.policy.Probing() && b.probeMark == in.n {
		if m.Answered > in.answered {
			b.succeeded(ctx)
		} else {
			b.releaseProbe(in)
		}
	}
	b.recovered(ctx, in, m.Answered)
	in.keep, in.contact = m.Keep, false
	if in.used || in.rested.IsZero() {
		in.used, in.rested = false, time.Now()
	}
	in.phase = phaseIdle
	b.idle = append(b.idle, in)
	b.entry.active.Store(b.anyBusy())
	switch {
	case in.retire || b.leaving != nil:
		b.close(ctx, in, "no longer wanted", nil)
	case b.ephemeral() && in.given() && len(b.contacts) == 0 && !m.Keep:
		b.close(ctx, in, "ephemeral and idle", nil)
	default:
		if b.ephemeral() && !m.Keep {
			ctx.After(ephemeralGrace, &ephemeralDue{in.n})
		}
		b.relieve(ctx, in)
		b.unused(ctx, in)
	}
}

// unused tells the pool that an instance is idle.
func (b *breakerActor) unused(ctx *kernel.Context, in *instance) {
	keepAlive, timeout := b.patience(in)
	ctx.Send(b.pool, &messages.Unused{Lease: in.lease, KeepAlive: keepAlive, IdleTimeout: timeout, Since: in.rested})
}

// patience is how the pool is to treat an instance while it is idle.
func (b *breakerActor) patience(in *instance) (keepAlive bool, timeout time.Duration) {
	if in.keep {
		return true, 0
	}
	return b.spec.Lifecycle == messages.LifecycleKeepAlive, b.spec.IdleTimeout
}

// onFree lets an idle instance go that was kept for its subscriptions.
func (b *breakerActor) onFree(ctx *kernel.Context, m *messages.ConnectionFree) {
	in := b.instances[m.Instance]
	if in == nil || in.phase != phaseIdle || !in.keep {
		return
	}
	in.keep, in.rested = false, time.Now()
	ctx.Send(b.pool, &messages.Used{Lease: in.lease})
	if b.ephemeral() {
		ctx.After(ephemeralGrace, &ephemeralDue{in.n})
	}
	b.unused(ctx, in)
}

func (b *breakerActor) ephemeral() bool { return b.spec.Lifecycle == messages.LifecycleEphemeral }

// onEphemeralDue ends an ephemeral instance that listed its tools and that
// nobody called.
func (b *breakerActor) onEphemeralDue(ctx *kernel.Context, m *ephemeralDue) {
	if in := b.instances[m.instance]; in != nil && in.phase == phaseIdle && b.ephemeral() && !in.keep {
		b.close(ctx, in, "ephemeral and idle", nil)
	}
}

func (b *breakerActor) anyBusy() bool {
	for _, in := range b.instances {
		if in.phase == phaseReady {
			return true
		}
	}
	return false
}

// worked takes notice that an instance's child answered calls, unless it is a
// retired one, which says nothing of those to come.
func (b *breakerActor) worked(ctx *kernel.Context, in *instance) {
	if !in.retire {
		b.succeeded(ctx)
	}
}

func (b *breakerActor) succeeded(ctx *kernel.Context) {
	before := b.policy.State(time.Now())
	b.policy.OnSuccess(time.Now())
	if after := b.policy.State(time.Now()); after != before {
		b.entry.tally.moved(before, after)
		ctx.Event("breaker", before.String()+" → "+after.String(), 0)
	}
	b.publish()
}

// onProbeOver takes notice of what became of the half-open probe, whose connection may
// be busy with other calls for long.
func (b *breakerActor) onProbeOver(ctx *kernel.Context, m *messages.ProbeOver) {
	switch {
	case !b.policy.Probing() || b.probeCall != m.Call:
	case m.Answered:
		b.succeeded(ctx)
	default:
		b.policy.OnNeutral()
	}
}

// freeProbe frees a half-open probe that nothing carries any more, and whose
// outcome will therefore never come: no call and nobody else waits, no instance
// has work, and none that is told to close has the probe to give back.
func (b *breakerActor) freeProbe() {
	if !b.policy.Probing() || len(b.held) > 0 || len(b.contacts) > 0 {
		return
	}
	for _, in := range b.instances {
		if in.phase != phaseIdle && (in.phase != phaseClosing || b.probeCall != 0 && b.probeMark == in.n) {
			return
		}
	}
	b.policy.OnNeutral()
}

// releaseProbe frees the half-open probe that in carried and that told nothing.
func (b *breakerActor) releaseProbe(in *instance) {
	if b.policy.Probing() && b.probeMark == in.n {
		b.policy.OnNeutral()
	}
}

// releaseContact frees the half-open probe that in carried where that is no call: a call
// comes back and is the probe still.
func (b *breakerActor) releaseContact(in *instance) {
	if b.probeCall == 0 {
		b.releaseProbe(in)
	}
}
