package index

import (
	"context"
	"fmt"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// ActorDeps is what the index actor needs from the rest of the host.
type ActorDeps struct {
	View *View
	// Cache may be nil: nothing is kept on disk. One worker at a time writes to
	// it; several goroutines read it, meanwhile too.
	Cache *Cache
	// Keeper remembers what was accepted of servers; nil: nobody does. Its Keep
	// is called by one worker at a time, its Load by several goroutines, meanwhile
	// too.
	Keeper Keeper
	// StorePath is the folder of the badger store; "": nothing is kept there.
	StorePath string
	// StoreRetry is how long the index works in memory before it looks again
	// whether it can have the store; 0: 30 seconds.
	StoreRetry time.Duration
	// Brief says that the index lives for one command: that a host has the store is
	// usual then, and nothing that a person should know.
	Brief bool
	// Notify hands a message to a server's breaker.
	Notify func(server string, msg any)
	// Warn logs what a person should know, Info that it is over.
	Warn, Info func(msg string, args ...any)
}

// What the host says to the index.
type (
	// Known tells which servers are configured. Listings of others go, and
	// those of new ones are read from the cache. Done, which may be nil, is
	// closed when that is over.
	Known struct {
		Specs []*messages.ServerSpec
		Done  chan<- struct{}
	}
	// SetRules makes tool rules hold for the whole catalog.
	SetRules struct{ Rules *Rules }
	// Sweep removes what belongs to servers that this host saw leave its
	// configuration, and what nobody has used for long.
	Sweep struct{}
)

type (
	loaded struct {
		sets     []*messages.Toolset
		accepted map[string]messages.Accepted
		done     chan<- struct{}
	}
	stored struct{ err error } // what the store said
)

// vectorSweep is the distance between two looks for vectors that no tool uses
// any more. A server that goes and comes back within it costs nothing.
const vectorSweep = time.Hour

// maxGone bounds the servers that are remembered as gone until the next sweep. What
// more go is swept when nobody has used it for long.
const maxGone = 1 << 14

// loadParallel bounds the files that are read at once: of the cache, and of what
// was accepted.
const loadParallel = 4

// indexActor owns the catalog. It runs on a goroutine of its own, so that
// reading a listing of thousands of tools holds nobody up. What is done at the disk is
// done in workers: one at a time saves listings, one records what was accepted, and one
// looks for vectors or makes them; others read beside them.
type indexActor struct {
	deps  *ActorDeps
	specs map[string]*messages.ServerSpec

	working bool            // a worker saves, prunes or sweeps
	atDisk  <-chan struct{} // closed when the last of those has ended; nil: there was none
	saves   map[string]*messages.Toolset
	saved   map[string]time.Time // when the listing was made that was last handed to be saved
	prune   bool
	// gone are the servers that have left the configuration since the last sweep.
	// Others in the folder may be those of another configuration, whose host
	// would have to start them all to know their tools again.
	gone map[string]bool
	// keepVectors says that vectors from before the store are to be stored.
	keepVectors bool
	figures     bool // to be written down
	swept       time.Time

	begun bool
	shelf shelf
	embed embeddingWork
	pins  pinning
	twins twins
}

// NewActor returns the producer of the index actor.
func NewActor(deps *ActorDeps) func() kernel.Actor {
	deps.View.background, deps.View.look = newBackground(), newLook()
	return func() kernel.Actor {
		return &indexActor{deps: deps, specs: map[string]*messages.ServerSpec{}, saves: map[string]*messages.Toolset{}, saved: map[string]time.Time{}, gone: map[string]bool{}, pins: newPinning(), twins: newTwins(), embed: embeddingWork{paces: paces{}, background: deps.View.background}}
	}
}

// Receive implements kernel.Actor.
func (a *indexActor) Receive(ctx *kernel.Context, msg any) {
	switch m := msg.(type) {
	case *messages.Listing:
		a.take(m.Server, m.Instance, m.Verdict, m.Changes, func() { a.onListing(ctx, m) })
	case *Known:
		a.onKnown(ctx, m)
	case *loaded:
		a.onLoaded(m)
		a.embedNext(ctx)
	case *SetRules:
		a.deps.View.store(a.deps.View.Load().Ruled(m.Rules))
		a.embedNext(ctx)
	case *Begin:
		a.onBegin(ctx)
	case *Settle:
		a.onSettle(ctx, m)
	case *Discard:
		a.onDiscard(ctx, m)
	case *SetPins:
		a.onSetPins(ctx, m)
	case *PinsChanged:
		a.onPinsChanged(ctx, m)
	case *pinsLoaded:
		a.onPinsLoaded(ctx, m)
	case *kept:
		a.onKept(ctx, m)
	case *keepLate:
		a.onKeepLate(ctx)
	case *UseEmbedder:
		a.onUseEmbedder(ctx, m)
	case *embedded:
		a.onEmbedded(ctx, m)
	case *embedAgain:
		a.onEmbedAgain(ctx, m)
	case *embedPaced:
		a.embed.pacing = false
		a.embedNext(ctx)
	case *opened:
		a.onOpened(ctx, m)
	case *openAgain:
		a.onOpenAgain(ctx)
	case *keepAgain:
		a.onKeepAgain(ctx)
	case *Sweep:
		a.prune = a.deps.Cache != nil
		a.work(ctx)
	case *stored:
		a.working = false
		if m.err != nil {
			a.storeFailed(ctx, m.err)
		} else if a.shelf.store != nil && !a.shelf.unkept && a.deps.View.Status().StorageTrouble != "" {
			a.report(func(s *Status) { s.StorageTrouble = "" })
		}
		a.work(ctx)
	case kernel.Stopping:
		a.leavePins(ctx.System())
		a.leaveStore(ctx.System())
		if e := a.embed.embedder; e != nil {
			a.endEmbedder(ctx.System(), e)
		}
	}
}

// take has f deal with a listing, which meets what strangers wrote and the code of
// others. Where that breaks the listing is over: nobody is to wait for ever for what
// becomes of it. The panic goes on, to whoever supervises this actor.
func (a *indexActor) take(server string, instance, verdict, changes uint64, f func()) {
	taken := false
	defer func() {
		if taken {
			return
		}
		a.deps.Notify(server, &messages.Cataloged{Server: server, Instance: instance, Verdict: verdict, Changes: changes, Err: &messages.Error{
			Code: messages.CodeConnection, Server: server, Class: messages.ClassOther, Retryable: true,
			Message: fmt.Sprintf("%q is connected but taking in its tool listing broke inside metamcp", server),
			Hint:    "Try again; if it stays so, report it with the log of the host.",
		}})
	}()
	f()
	taken = true
}

func (a *indexActor) onListing(ctx *kernel.Context, m *messages.Listing) {
	spec := a.specs[m.Server]
	if spec == nil || spec.Hash != m.SpecHash {
		a.deps.Notify(m.Server, &messages.Cataloged{Server: m.Server, Instance: m.Instance, Verdict: m.Verdict, Err: outdated(m.Server)})
		return
	}
	ts := &messages.Toolset{
		Server: m.Server, Fetched: time.Now(), Live: true, Instance: m.Instance, Changes: m.Changes, Era: m.Era, Version: m.Version, SpecHash: m.SpecHash,
		ServerName: m.ServerName, ServerVersion: m.ServerVersion, Instructions: m.Instructions, Offers: m.Offers,
	}
	if m.Truncated != "" {
		a.deps.Warn("a server's tool listing was ended early", "server", m.Server, "why", m.Truncated)
	}
	for _, page := range m.Pages {
		tools, skipped, err := ParseTools(m.Server, page)
		if err != nil {
			a.deps.Notify(m.Server, &messages.Cataloged{Server: m.Server, Instance: m.Instance, Verdict: m.Verdict, Changes: m.Changes, Fault: true, Err: &messages.Error{
				Code: messages.CodeConnection, Server: m.Server, Class: messages.ClassOther, Cause: err,
				Message: fmt.Sprintf("%q is connected but its tool listing is not understood: %v", m.Server, err),
				Hint:    "This is a fault of the server; its log may say more.",
			}})
			return
		}
		// The connection ends the listing with the page that has too many.
		ts.Tools = append(ts.Tools, tools[:min(len(tools), MaxTools-len(ts.Tools))]...)
		ts.Skipped += skipped
	}
	if ts.Skipped > 0 {
		a.deps.Warn("a server listed tools that cannot be used", "server", m.Server, "skipped", ts.Skipped)
	}
	a.judge(ctx, &judging{ts: ts, like: a.twins.share(a.deps.View.Load(), ts), instance: m.Instance, verdict: m.Verdict})
}

// publish makes a listing what its server has, and tells its breaker.
func (a *indexActor) publish(ctx *kernel.Context, j *judging, review *messages.Review) {
	server := j.ts.Server
	spec := a.specs[server]
	if spec == nil || spec.Hash != j.ts.SpecHash {
		a.deps.Notify(server, &messages.Cataloged{Server: server, Instance: j.instance, Verdict: j.verdict, Err: outdated(server)})
		return
	}
	old := a.deps.View.Load().Server(server)
	a.deps.View.store(a.deps.View.Load().with(j.ts, labels(spec, review), j.like))
	a.deps.Notify(server, &messages.Cataloged{Server: server, Instance: j.instance, Verdict: j.verdict, Changes: j.ts.Changes, Listed: j.ts})
	if a.deps.Cache != nil && (old == nil || !sameListing(old.Toolset, j.ts) || j.ts.Fetched.Sub(a.saved[server]) >= relisted) {
		a.saves[server], a.saved[server] = j.ts, j.ts.Fetched
		a.work(ctx)
	}
	a.embedNext(ctx)
}

func outdated(server string) *messages.Error {
	return &messages.Error{
		Code: messages.CodeConnection, Server: server, Class: messages.ClassOffline, Retryable: true,
		Message: "the server's configuration changed while it listed its tools", Hint: "Try again.",
	}
}

func labels(spec *messages.ServerSpec, review *messages.Review) Labels {
	return Labels{Tags: spec.Tags, Description: spec.Description, Disabled: spec.Disabled, Review: review}
}

// sameListing reports whether two listings of a server would be the same on
// disk, so that an unchanged one costs no write.
func sameListing(x, y *messages.Toolset) bool {
	return sameTools(x, y) && x.Era == y.Era && x.SpecHash == y.SpecHash && x.Version == y.Version &&
		x.ServerVersion == y.ServerVersion && x.Instructions == y.Instructions && x.Offers == y.Offers
}

func (a *indexActor) onKnown(ctx *kernel.Context, m *Known) {
	specs := make(map[string]*messages.ServerSpec, len(m.Specs))
	var fresh []string
	cat := a.deps.View.Load()
	for _, s := range m.Specs {
		specs[s.Name] = s
		delete(a.gone, s.Name)
		old := a.specs[s.Name]
		if s.Err == nil && (old == nil || old.Hash != s.Hash) {
			fresh = append(fresh, s.Name)
		}
		if old != nil && old.Hash != s.Hash {
			cat = cat.Without(s.Name)
		} else if known := cat.Server(s.Name); known != nil {
			if l := labels(s, known.Review()); !l.same(known.labels) {
				cat = cat.With(known.Toolset, l)
			}
		}
	}
	for name := range a.specs {
		if specs[name] == nil {
			cat = cat.Without(name)
			a.setAccepted(name, nil)
			delete(a.pins.kept, name)
			delete(a.pins.changed, name)
			delete(a.saves, name) // a sweep may be over before it would be written
			delete(a.saved, name)
			if len(a.gone) < maxGone {
				a.gone[name] = true
			}
		}
	}
	a.specs = specs
	a.twins.forget(func(server string) bool { return specs[server] != nil })
	a.deps.View.store(cat)
	pinned := a.deps.Keeper != nil && a.pins.mode != messages.PinsOff
	if a.deps.Cache == nil && !pinned || len(fresh) == 0 {
		closeIfAny(m.Done)
		return
	}
	deps, sys, self, done := a.deps, ctx.System(), ctx.Self(), m.Done
	sys.Go(func(context.Context) {
		result := &loaded{done: done}
		if deps.Cache != nil {
			var skipped []SkippedFile
			result.sets, skipped = deps.Cache.LoadAll(fresh, loadParallel)
			for _, s := range skipped {
				deps.Warn("a file of the schema cache was left out", "server", s.Server, "why", s.Err)
			}
		}
		if pinned {
			result.accepted = deps.loadAccepted(fresh)
		}
		sys.Send(self, result)
	}, func(any) { sys.Send(self, &loaded{done: done}) })
}

func (a *indexActor) onLoaded(m *loaded) {
	defer closeIfAny(m.done)
	cat := a.deps.View.Load()
	for server, accepted := range m.accepted {
		// What a worker said meanwhile is newer.
		if a.specs[server] != nil && a.pins.accepted[server] == nil {
			a.setAccepted(server, accepted)
		}
	}
	for _, ts := range m.sets {
		spec := a.specs[ts.Server]
		if spec == nil || spec.Hash != ts.SpecHash || cat.Server(ts.Server) != nil {
			continue // of another command, or older than what a child said
		}
		ts.Live = false
		like := a.twins.share(cat, ts)
		cat = cat.with(ts, labels(spec, a.review(ts)), like)
	}
	a.deps.View.store(cat)
}

// work gives the worker the next thing to do at the disk.
func (a *indexActor) work(ctx *kernel.Context) {
	st := a.shelf.store
	vectors := a.keepVectors && st != nil && a.embed.embedder != nil
	figures := a.figures && st != nil
	if a.working || !a.prune && !vectors && !figures && len(a.saves) == 0 {
		return
	}
	a.working = true
	job := &diskWork{saves: a.saves, figures: figures || vectors || a.prune}
	a.figures = false
	if a.embed.embedder != nil {
		job.model = a.embed.embedder.model
	}
	if vectors {
		job.vectors, job.background, a.keepVectors = a.deps.View.Load(), a.embed.background, false
	}
	if a.prune {
		job.sweep = &sweeping{servers: make(map[string]bool, len(a.specs)), gone: a.gone}
		a.gone = map[string]bool{}
		if a.begun && time.Since(a.swept) >= vectorSweep {
			// The first one comes when the host has known its servers for a
			// while, and so does not delete what it will need.
			job.sweep.catalog, job.sweep.model, a.swept = a.deps.View.Load(), job.model, time.Now()
			job.sweep.background = a.embed.background
		}
		for name := range a.specs {
			job.sweep.servers[name] = true
		}
	}
	a.saves, a.prune = map[string]*messages.Toolset{}, false
	deps, sys, self, over := a.deps, ctx.System(), ctx.Self(), make(chan struct{})
	a.atDisk = over
	sys.Go(func(context.Context) {
		done := &stored{}
		defer sys.Send(self, done)
		defer close(over)
		deps.cache(job)
		if st != nil {
			done.err = deps.keep(st, job)
		}
	}, nil)
}

// cache writes the files of the schema cache.
func (d *ActorDeps) cache(job *diskWork) {
	for server, ts := range job.saves {
		if _, err := d.Cache.Save(ts); err != nil {
			d.Warn("the schema cache could not be written; discovery will need the server next time", "server", server, "error", err)
		}
	}
	if job.sweep != nil {
		if _, err := d.Cache.Prune(job.sweep.servers, job.sweep.gone); err != nil {
			d.Warn("the schema cache could not be cleaned", "error", err)
		}
	}
}

func closeIfAny(done chan<- struct{}) {
	if done != nil {
		close(done)
	}
}
