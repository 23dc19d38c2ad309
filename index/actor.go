package index

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// View is where the newest catalog can be read, by anyone and at no cost. The
// index actor alone replaces it.
type View struct{ p atomic.Pointer[Catalog] }

// Load returns the newest catalog; it is never nil.
func (v *View) Load() *Catalog {
	if c := v.p.Load(); c != nil {
		return c
	}
	return &Catalog{}
}

// ActorDeps is what the index actor needs from the rest of the host.
type ActorDeps struct {
	View *View
	// Cache may be nil: nothing is kept on disk. It is used by one worker at
	// a time.
	Cache *Cache
	// Notify hands a message to a server's breaker.
	Notify func(server string, msg any)
	// Warn logs what a person should know.
	Warn func(msg string, args ...any)
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
	// Sweep removes what belongs to servers that are no longer configured.
	Sweep struct{}
)

type (
	loaded struct {
		sets []*messages.Toolset
		done chan<- struct{}
	}
	stored struct{}
)

// loadParallel bounds the files of the cache that are read at once.
const loadParallel = 4

// indexActor owns the catalog. It runs on a goroutine of its own, so that
// reading a listing of thousands of tools holds nobody up; disk work happens
// in one worker at a time.
type indexActor struct {
	deps  *ActorDeps
	specs map[string]*messages.ServerSpec

	working bool // a worker is at the store
	saves   map[string]*messages.Toolset
	prune   bool
}

// NewActor returns the producer of the index actor.
func NewActor(deps *ActorDeps) func() kernel.Actor {
	return func() kernel.Actor {
		return &indexActor{deps: deps, specs: map[string]*messages.ServerSpec{}, saves: map[string]*messages.Toolset{}}
	}
}

// Receive implements kernel.Actor.
func (a *indexActor) Receive(ctx *kernel.Context, msg any) {
	switch m := msg.(type) {
	case *messages.Listing:
		a.onListing(ctx, m)
	case *Known:
		a.onKnown(ctx, m)
	case *loaded:
		a.onLoaded(m)
	case *SetRules:
		a.deps.View.p.Store(a.deps.View.Load().Ruled(m.Rules))
	case *Sweep:
		a.prune = a.deps.Cache != nil
		a.work(ctx)
	case *stored:
		a.working = false
		a.work(ctx)
	}
}

func (a *indexActor) onListing(ctx *kernel.Context, m *messages.Listing) {
	spec := a.specs[m.Server]
	if spec == nil || spec.Hash != m.SpecHash {
		a.deps.Notify(m.Server, &messages.Cataloged{Server: m.Server, Instance: m.Instance, Err: &messages.Error{
			Code: messages.CodeServerNotFound, Server: m.Server, Retryable: true,
			Message: "the server's configuration changed while it listed its tools", Hint: "Try again.",
		}})
		return
	}
	ts := &messages.Toolset{
		Server: m.Server, Fetched: time.Now(), Live: true, Era: m.Era, Version: m.Version, SpecHash: m.SpecHash,
		ServerName: m.ServerName, ServerVersion: m.ServerVersion, Instructions: m.Instructions,
	}
	if m.Truncated != "" {
		a.deps.Warn("a server's tool listing was ended early", "server", m.Server, "why", m.Truncated)
	}
	for _, page := range m.Pages {
		tools, skipped, _, _, err := ParseTools(m.Server, page)
		if err != nil {
			a.deps.Notify(m.Server, &messages.Cataloged{Server: m.Server, Instance: m.Instance, Err: &messages.Error{
				Code: messages.CodeConnection, Server: m.Server, Class: messages.ClassOther, Cause: err,
				Message: fmt.Sprintf("%q is connected but its tool listing is not understood: %v", m.Server, err),
				Hint:    "This is a fault of the server; its log may say more.",
			}})
			return
		}
		ts.Tools = append(ts.Tools, tools...)
		ts.Skipped += skipped
	}
	if ts.Skipped > 0 {
		a.deps.Warn("a server listed tools that cannot be used", "server", m.Server, "skipped", ts.Skipped)
	}
	old := a.deps.View.Load().Server(m.Server)
	a.deps.View.p.Store(a.deps.View.Load().With(ts, spec.Tags...))
	a.deps.Notify(m.Server, &messages.Cataloged{Server: m.Server, Instance: m.Instance})
	if a.deps.Cache != nil && (old == nil || !sameListing(old.Toolset, ts)) {
		a.saves[m.Server] = ts
		a.work(ctx)
	}
}

// sameListing reports whether two listings of a server would be the same on
// disk, so that an unchanged one costs no write.
func sameListing(x, y *messages.Toolset) bool {
	if len(x.Tools) != len(y.Tools) || x.Era != y.Era || x.SpecHash != y.SpecHash || x.Version != y.Version ||
		x.ServerVersion != y.ServerVersion || x.Instructions != y.Instructions {
		return false
	}
	for i := range x.Tools {
		if !bytes.Equal(x.Tools[i].Raw, y.Tools[i].Raw) {
			return false
		}
	}
	return true
}

func (a *indexActor) onKnown(ctx *kernel.Context, m *Known) {
	specs := make(map[string]*messages.ServerSpec, len(m.Specs))
	var fresh []string
	cat := a.deps.View.Load()
	for _, s := range m.Specs {
		specs[s.Name] = s
		old := a.specs[s.Name]
		if s.Err == nil && (old == nil || old.Hash != s.Hash) {
			fresh = append(fresh, s.Name)
		}
		if old != nil && old.Hash != s.Hash {
			cat = cat.Without(s.Name)
		}
	}
	for name := range a.specs {
		if specs[name] == nil {
			cat = cat.Without(name)
		}
	}
	a.specs = specs
	a.deps.View.p.Store(cat)
	if a.deps.Cache == nil || len(fresh) == 0 {
		closeIfAny(m.Done)
		return
	}
	deps, sys, self, done := a.deps, ctx.System(), ctx.Self(), m.Done
	sys.Go(func(context.Context) {
		sets, skipped := deps.Cache.LoadAll(fresh, loadParallel)
		for _, s := range skipped {
			deps.Warn("a file of the schema cache was left out", "server", s.Server, "why", s.Err)
		}
		sys.Send(self, &loaded{sets: sets, done: done})
	}, func(any) { sys.Send(self, &loaded{done: done}) })
}

func (a *indexActor) onLoaded(m *loaded) {
	cat := a.deps.View.Load()
	for _, ts := range m.sets {
		spec := a.specs[ts.Server]
		if spec == nil || spec.Hash != ts.SpecHash || cat.Server(ts.Server) != nil {
			continue // of another command, or older than what a child said
		}
		ts.Live = false
		cat = cat.With(ts, spec.Tags...)
	}
	a.deps.View.p.Store(cat)
	closeIfAny(m.done)
}

// work gives the worker the next thing to do at the store.
func (a *indexActor) work(ctx *kernel.Context) {
	if a.working || !a.prune && len(a.saves) == 0 {
		return
	}
	a.working = true
	saves, prune := a.saves, a.prune
	a.saves, a.prune = map[string]*messages.Toolset{}, false
	keep := make(map[string]bool, len(a.specs))
	if prune {
		for name := range a.specs {
			keep[name] = true
		}
	}
	deps, sys, self := a.deps, ctx.System(), ctx.Self()
	sys.Go(func(context.Context) {
		defer sys.Send(self, &stored{})
		for server, ts := range saves {
			if _, err := deps.Cache.Save(ts); err != nil {
				deps.Warn("the schema cache could not be written; discovery will need the server next time", "server", server, "error", err)
			}
		}
		if prune {
			if _, err := deps.Cache.Prune(func(s string) bool { return keep[s] }); err != nil {
				deps.Warn("the schema cache could not be cleaned", "error", err)
			}
		}
	}, nil)
}

func closeIfAny(done chan<- struct{}) {
	if done != nil {
		close(done)
	}
}
