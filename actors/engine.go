// Package actors holds who does the work: the root, the sessions of clients, the
// connections to children, what they say of changes (notices), the provisioner,
// the sandbox with its runs, and the trace; and the [Engine] through which
// everything outside speaks to them.
package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// Options are what an engine is made of.
type Options struct {
	Launcher Launcher
	Cache    *index.Cache // nil: no schema cache
	// StorePath is the folder of the index store; "": none. It needs a Cache.
	StorePath string
	Settings  supervision.PoolSettings
	// CatalogTTL is the age from which a listing is refreshed at its next use; 0:
	// it never is.
	CatalogTTL time.Duration
	// Keeper remembers what was accepted of servers' tools; nil: nobody does.
	Keeper index.Keeper
	// CatalogSweep is the distance between two looks for what belongs to
	// servers that are no longer configured. It must be positive.
	CatalogSweep time.Duration
	// MaxStarts bounds how many children are started at the same moment; 8 where
	// it is not positive.
	MaxStarts int
	// Name and Version are what children are told about their client.
	Name, Version string
	Log           *slog.Logger // not nil
	// Scrub returns an error without secrets; nil: errors stay as they are.
	Scrub func(err *messages.Error) *messages.Error
	// ScrubText does the same for a text, which it may change; nil: it stays.
	ScrubText func(text []byte) []byte
	// ScrubJSON does the same for a JSON text, which it does not change.
	ScrubJSON func(raw json.RawMessage) json.RawMessage
	// ScrubFrame takes secrets out of what a server says to its caller: its
	// answer to a call, or progress of one. It runs on the goroutine that reads
	// from the child; nil: frames stay as they are.
	ScrubFrame func(server string, f *messages.Frame)
	// Sandbox starts the processes in which scripts run; nil: none run.
	Sandbox SandboxLauncher
	// Provisioner finds and installs servers; nil: nobody does.
	Provisioner Provisioner
	// SandboxSettings are those of the first script.
	SandboxSettings SandboxSettings
	// NextCall gives a call of a script, or a subscription, a number below 2^47 that
	// no other call of this host has. It is needed where there is a sandbox or
	// [Engine.Subscribe] is used.
	NextCall func() uint64
	// Discover searches for tools on behalf of a script, which may reach only
	// these servers; nil: all. It ends with ctx.
	Discover func(ctx context.Context, session uint64, args json.RawMessage, only []string) (json.RawMessage, *messages.Error)
	// CallEnded is told of every call; nil: nobody is. It runs on the goroutine
	// that answers and must not block.
	CallEnded func(r *CallReport)
	// WarnOfServer writes to the log that a server ended unexpectedly, or is set
	// aside for a while; nil: nobody reads it. It must not block.
	WarnOfServer func(msg string, args ...any)
	// Brief says that the runtime lives for one command, as [index.ActorDeps] has it.
	Brief bool
	// CatalogChanged hears that there is a newer catalog, ListChanged that a
	// server says so of its list of prompts or resources, or has a new session, which
	// may have others; or, with no list, that another child of it runs, so that what
	// is being read comes from that. nil: nobody does. They do not block.
	CatalogChanged func()
	ListChanged    func(server string, list ChildList)
	// GaveUp is called, once, when an actor that the host cannot do without
	// failed again and again; the host should end. Until then the actors go on
	// as well as they can.
	GaveUp func(reason any)
}

// Engine is the runtime as everything outside the actors sees it. Its methods
// are safe for any goroutine.
type Engine struct {
	opts Options
	sys  *kernel.System
	dir  *supervision.Directory
	view *index.View

	trace    *Trace
	observer observer

	searcher *index.Searcher
	began    atomic.Bool

	root     *kernel.PID
	rootDone <-chan struct{}
	index    *kernel.PID
	pool     *kernel.PID
	sandbox  *kernel.PID
	conns    *connectionDeps

	provisioner *kernel.PID
	notices     *kernel.PID

	sandboxStatus   atomic.Pointer[messages.SandboxStatus]              // nil: nothing happened yet
	provisionStatus atomic.Pointer[messages.ProvisionStatus]            // nil: nothing happened yet
	leftOut         atomic.Pointer[func(server string) *messages.Error] // that of the last Change
	scriptList      atomic.Pointer[scriptList]                          // nil: no script ran yet

	catalogTTL atomic.Int64 // a time.Duration
	judges     *Turns       // of the workers that check calls
	contacts   atomic.Uint64
	questions  atomic.Uint64 // to clients, ever
	unsent     sync.Map      // call id → *unsent
	closed     atomic.Bool
	draining   atomic.Bool
	stopped    atomic.Bool  // the actors have, since they failed again and again
	sessions   atomic.Int64 // that are open
	open       sync.Map     // their numbers
	principals sync.Map     // session → uint64, where it is known
	// sessionCalls is how many calls of one client may be in flight; 0: any number.
	sessionCalls atomic.Int64

	left      chan struct{} // closed when Close waits no longer for the actors to stop
	closeOnce sync.Once
	closeErr  error // what did not stop then
}

// NewEngine starts the actors. No child is started before somebody needs it.
func NewEngine(opts Options) (*Engine, error) {
	if opts.MaxStarts <= 0 {
		opts.MaxStarts = 8
	}
	if opts.Scrub == nil {
		opts.Scrub = func(err *messages.Error) *messages.Error { return err }
	}
	e := &Engine{opts: opts, sys: kernel.New(opts.Log), dir: &supervision.Directory{}, view: &index.View{}, judges: NewTurns(maxJudges, maxLater), left: make(chan struct{})}
	e.catalogTTL.Store(int64(opts.CatalogTTL))
	e.view.OnChange = opts.CatalogChanged
	e.searcher = index.NewSearcher(e.view)
	e.sessionCalls.Store(int64(opts.Settings.SessionCalls))
	e.trace = newTrace(e.sys, opts.ScrubText, opts.ScrubJSON)
	e.observer.trace, e.observer.told = e.trace, opts.CallEnded
	e.sys.OnUndelivered(e.undelivered)
	e.conns = &connectionDeps{
		asked:    &e.questions,
		launcher: opts.Launcher, identity: newIdentity(opts.Name, opts.Version),
		starts:  make(chan struct{}, opts.MaxStarts),
		holding: e.view.Holding, vet: e.vet, accepted: e.view.Accepted, scrub: opts.ScrubFrame, scrubError: opts.Scrub, scrubText: opts.ScrubText,
		status: e.status,
		alone:  func() bool { return e.Sessions() <= 1 },
	}
	ready := make(chan error, 1)
	root := &rootActor{
		gaveUp:     opts.GaveUp,
		sweepEvery: opts.CatalogSweep,
		strategy:   resumes(), ofPool: resumes(),
		produceIndex: index.NewActor(&index.ActorDeps{
			View: e.view, Cache: opts.Cache, Keeper: opts.Keeper, StorePath: opts.StorePath, Brief: opts.Brief, Warn: opts.Log.Warn, Info: opts.Log.Info,
			Notify: func(server string, msg any) {
				if entry, ok := e.dir.Lookup(server); ok {
					e.sys.Send(entry.Breaker, msg)
				}
			},
		}),
		producePool: supervision.NewPoolActor(&supervision.PoolDeps{Directory: e.dir, Breakers: &supervision.BreakerDeps{
			Random: rand.Float64,
			Scrub:  opts.Scrub,
			Warn:   opts.WarnOfServer,
			Era:    e.era,
			Open: func(session uint64) bool {
				_, open := e.open.Load(session)
				return open
			},
			SpawnConnection: func(ctx *kernel.Context, spec *messages.ServerSpec, instance uint64, gauge *supervision.Gauge) (*kernel.PID, error) {
				return ctx.Spawn("conn#"+fmt.Sprint(instance), func() kernel.Actor {
					return newConnection(e.conns, spec, instance, gauge)
				}, kernel.Inline())
			},
		}}, opts.Settings),
		produceSandbox:     func() kernel.Actor { return newSandbox(e, opts.Sandbox, opts.SandboxSettings) },
		produceProvisioner: func() kernel.Actor { return newProvisioner(e, opts.Provisioner) },
		produceNotices:     func() kernel.Actor { return newNotices(e) },
		spawned: func(s spawned, err error) {
			e.index, e.pool, e.sandbox, e.provisioner, e.notices = s.index, s.pool, s.sandbox, s.provisioner, s.notices
			e.conns.index, e.conns.notices = s.index, s.notices
			ready <- err
		},
	}
	var err error
	everythingStops := func(reason any) {
		e.stopped.Store(true)
		root.giveUp(reason)
	}
	e.root, e.rootDone, err = e.sys.SpawnRoot("metamcp", func() kernel.Actor { return root }, everythingStops, kernel.Supervise(root.decide))
	if err != nil {
		return nil, err
	}
	if err := <-ready; err != nil {
		e.sys.Stop(e.root)
		return nil, err
	}
	return e, nil
}

// era is what the catalog knows of how a server speaks.
func (e *Engine) era(spec *messages.ServerSpec) messages.Era {
	if s := e.view.Load().Server(spec.Name); s != nil && s.Toolset.SpecHash == spec.Hash {
		return s.Toolset.Era
	}
	return messages.EraUnknown
}

// status is what is known of how a server does; zero: there is none of that name.
func (e *Engine) status(server string) messages.Status {
	if entry, ok := e.dir.Lookup(server); ok {
		return entry.Status()
	}
	return messages.Status{}
}

// Draining reports whether Drain or Close was called.
func (e *Engine) Draining() bool { return e.draining.Load() }

// Closed reports whether Close has stopped the actors.
func (e *Engine) Closed() bool { return e.closed.Load() }

// Sessions is how many clients are connected.
func (e *Engine) Sessions() int { return int(e.sessions.Load()) }

// Trace shows what the actors say to each other.
func (e *Engine) Trace() *Trace { return e.trace }

// Actors lists the living actors by id.
func (e *Engine) Actors() []messages.ActorStatus {
	living := e.sys.Actors()
	out := make([]messages.ActorStatus, len(living))
	for i, a := range living {
		out[i] = messages.ActorStatus{ID: a.ID, Mailbox: a.Mailbox}
	}
	return out
}

// Directory says which servers there are and how they do.
func (e *Engine) Directory() *supervision.Directory { return e.dir }

// Catalog is the newest snapshot of all tools.
func (e *Engine) Catalog() *index.Catalog { return e.view.Load() }

// Apply makes the engine know the servers in all, of which added are new,
// changed have another configuration (their children are ended when idle),
// updated differ only in what a running child does not feel, and removed are
// gone; the others differ at most in where they stand. It returns once all of that is so and the catalog has read what the
// cache knows of the new ones, or when ctx or the runtime ends.
func (e *Engine) Apply(ctx context.Context, change Change) error {
	done := make(chan struct{})
	e.leftOut.Store(&change.LeftOut)
	if change.NewRules {
		e.sys.Send(e.index, &index.SetRules{Rules: change.Rules})
	}
	e.sys.Send(e.index, &index.Known{Specs: change.All, Done: done})
	if len(change.Added) > 0 {
		e.sys.Send(e.pool, &supervision.AddServers{Specs: change.Added})
	}
	for _, s := range change.Changed {
		e.sys.Send(e.pool, &supervision.ChangeServer{Spec: s, Restart: true})
	}
	for _, s := range change.Updated {
		e.sys.Send(e.pool, &supervision.ChangeServer{Spec: s})
	}
	if moved := e.moved(change.All); len(moved) > 0 {
		e.sys.Send(e.pool, &supervision.MoveServers{Specs: moved})
	}
	if len(change.Removed) > 0 {
		e.sys.Send(e.pool, &supervision.RemoveServers{Names: change.Removed, Drain: change.Drain})
	}
	if change.Settings != nil {
		e.sessionCalls.Store(int64(change.Settings.SessionCalls))
		e.sys.Send(e.pool, &supervision.Configure{Settings: *change.Settings})
	}
	if change.Lists != nil {
		e.sys.Go(func(ctx context.Context) {
			defer close(change.Lists)
			_, _ = await(ctx, e, done) // without them, then
		}, func(any) {})
	} else if _, err := await(ctx, e, done); err != nil {
		return err
	}
	// The pool takes its messages in order: once it answers, the servers are in
	// the directory.
	_, err := e.PoolStats(ctx)
	e.conns.forgetAskers(change.All)
	return err
}

// moved are those of all servers' configurations that stand elsewhere than the
// directory says.
func (e *Engine) moved(all []*messages.ServerSpec) (moved []*messages.ServerSpec) {
	for _, s := range all {
		if entry, ok := e.dir.Lookup(s.Name); ok && entry.Spec().Source != s.Source {
			moved = append(moved, s)
		}
	}
	return moved
}

// SetPins says what becomes of tools whose definition is not the accepted one.
// It holds once a later Apply has returned.
func (e *Engine) SetPins(mode messages.PinMode) { e.sys.Send(e.index, &index.SetPins{Mode: mode}) }

// PinsChanged has read anew what is accepted of servers.
func (e *Engine) PinsChanged(servers []string) {
	e.sys.Send(e.index, &index.PinsChanged{Servers: servers})
}

// Discard deletes what a server listed that was never to stay, given by the hash of its
// configuration, and what was accepted of it where pins are to go, too. It returns when
// that is over, or when ctx or the runtime ends.
func (e *Engine) Discard(ctx context.Context, server, hash string, pins bool) error {
	done := make(chan struct{})
	e.sys.Send(e.index, &index.Discard{Server: server, Hash: hash, Pins: pins, Done: done})
	_, err := await(ctx, e, done)
	return err
}

// ConfigureCatalog sets what CatalogTTL and CatalogSweep of [Options] were.
func (e *Engine) ConfigureCatalog(ttl, sweep time.Duration) {
	e.catalogTTL.Store(int64(ttl))
	e.sys.Send(e.root, &configureSweep{sweep})
}

// Change is the difference between two configurations.
type Change struct {
	All      []*messages.ServerSpec
	Added    []*messages.ServerSpec
	Changed  []*messages.ServerSpec
	Updated  []*messages.ServerSpec
	Removed  []string
	Drain    time.Duration // what calls in flight at removed servers get
	Settings *supervision.PoolSettings
	NewRules bool // Rules replace the present ones
	Rules    *index.Rules
	// LeftOut says what is wrong with an entry of the configuration by whose name there
	// is no server; nil: there is no such entry, or none at all.
	LeftOut func(server string) *messages.Error
	// Lists, where not nil, is closed once the lists of new servers are read from the
	// cache, and Apply does not wait for that.
	Lists chan struct{}
}

// PoolStats asks the pool for its numbers. It fails where ctx or the runtime ends first.
func (e *Engine) PoolStats(ctx context.Context) (supervision.PoolReport, error) {
	reply := make(chan supervision.PoolReport, 1)
	e.sys.Send(e.pool, &supervision.InspectPool{Reply: reply})
	return await(ctx, e, reply)
}

// Squeeze ends a part of the idle children, those first that were not used for
// longest. evicted is told how many; it may be called on another goroutine and must
// not block.
func (e *Engine) Squeeze(evicted func(n int)) {
	e.sys.Send(e.pool, &supervision.Squeeze{Evicted: evicted})
}

// Drain refuses new calls, gives those in flight until deadline, and ends all
// children in parallel. The channel is closed when no process is left. It may
// be called again with an earlier deadline.
func (e *Engine) Drain(deadline time.Time) <-chan struct{} {
	e.draining.Store(true)
	done := make(chan struct{})
	e.sys.Send(e.pool, &supervision.Shutdown{Deadline: deadline, Done: done})
	return done
}

// stopTime is how long the actors have at least to stop, which answers whoever waits
// still, and to kill what is left of the children.
const stopTime = supervision.ReapWait + 3*time.Second

// Close ends everything: it drains until deadline, waits for the children and
// stops the actors. Where children are left when ctx ends they are killed, which takes
// some seconds more. The error, if any, says what did not stop in time. Called again, or
// beside another one, it waits for the same end, and says the same of the actors.
func (e *Engine) Close(ctx context.Context, deadline time.Time) error {
	var err error
	drained := e.Drain(deadline)
	select {
	case <-drained:
	case <-ctx.Done():
		err = fmt.Errorf("not all children have ended: %w", ctx.Err())
	}
	e.closeOnce.Do(func() {
		stopping := ctx
		if until, ok := ctx.Deadline(); ctx.Err() != nil || ok && time.Until(until) < stopTime {
			longer, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
			defer cancel()
			stopping = longer
		}
		e.closed.Store(true)
		e.sys.Stop(e.root)
		select {
		case <-e.rootDone:
		case <-stopping.Done():
			e.closeErr = fmt.Errorf("not all actors have stopped: %w", stopping.Err())
		}
		close(e.left)
		e.closeErr = errors.Join(e.closeErr, e.sys.Shutdown(stopping))
	})
	return errors.Join(err, e.closeErr)
}
