package index

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/metamcp/metamcp/index/store"
	"github.com/metamcp/metamcp/index/vector"
	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

const storeRetry = 30 * time.Second

// Begin makes the index open its store and embed tools. Before somebody
// searches or serves, both would only cost.
type Begin struct{}

type (
	opened struct {
		store *store.Store
		err   error
		sets  []*messages.Toolset // of servers that the cache did not know
		// kept are listings of the catalog that the store has as they are, by server.
		kept map[string]*messages.Toolset
	}
	openAgain struct{}
	keepAgain struct{}
)

// shelf is the part of the index actor that keeps what was learned on disk.
type shelf struct {
	store   *store.Store
	opening *openingShelf // nil: nobody opens it
	waiting bool          // for openAgain
	unkept  bool          // vectors are to be stored with keepAgain
}

func (a *indexActor) onBegin(ctx *kernel.Context) {
	if a.begun {
		return
	}
	a.begun, a.swept = true, time.Now()
	a.openStore(ctx)
	a.embedNext(ctx)
}

func (a *indexActor) openStore(ctx *kernel.Context) {
	if a.deps.StorePath == "" || a.shelf.store != nil || a.shelf.opening != nil {
		return
	}
	opening := &openingShelf{}
	a.shelf.opening = opening
	deps, sys, self := a.deps, ctx.System(), ctx.Self()
	known := make(map[string]string, len(a.specs)) // by server: the spec's hash
	for name, spec := range a.specs {
		known[name] = spec.Hash
	}
	sys.Go(func(context.Context) {
		if o := openShelf(deps, known); opening.deliver(o) {
			sys.Send(self, o)
		} else {
			deps.closeShelf(o.store)
		}
	}, func(any) {
		sys.Send(self, &opened{err: errors.New("opening the index store broke inside metamcp; the log says more")})
	})
}

func openShelf(deps *ActorDeps, known map[string]string) *opened {
	st, err := store.Open(deps.StorePath, store.Options{Log: func(level, msg string) {
		if level != "info" {
			deps.Warn("index store: " + msg)
		}
	}})
	if err != nil {
		return &opened{err: err}
	}
	o := &opened{store: st, kept: map[string]*messages.Toolset{}}
	if why := st.Rebuilt(); why != "" {
		deps.Warn("the index store was damaged and is made anew; tools are embedded again", "why", why)
	}
	cat := deps.View.Load()
	err = st.Listings(func(server string, raw []byte) error {
		if known[server] == "" {
			return nil
		}
		if s := cat.Server(server); s != nil {
			if now, err := encodeToolset(s.Toolset); err == nil && bytes.Equal(now, raw) {
				o.kept[server] = s.Toolset
			}
			return nil
		}
		if ts, err := decodeToolset(server, raw); err == nil && ts.SpecHash == known[server] {
			o.sets = append(o.sets, ts)
		}
		return nil
	})
	if err != nil {
		deps.Warn("listings in the index store cannot be read", "error", err)
	}
	return o
}

func (a *indexActor) onOpened(ctx *kernel.Context, m *opened) {
	a.shelf.opening = nil
	if m.err != nil {
		a.withoutStore(ctx, m.err)
	} else {
		a.shelf.store = m.store
		if before := a.deps.View.Status().StorageTrouble; before != "" {
			a.deps.Info("the index is kept on disk again", "trouble", before)
		}
		a.report(func(s *Status) { s.Storage, s.StorageTrouble = StorageDisk, "" })
		a.onLoaded(&loaded{sets: m.sets})
		// What came before the store did is kept too.
		for s := range a.deps.View.Load().All() {
			if ts := s.Toolset; m.kept[ts.Server] != ts {
				a.saves[ts.Server] = ts
			}
		}
		a.keepVectors = true
		a.work(ctx)
	}
	a.embedNext(ctx)
	a.settle()
}

// withoutStore goes on in memory and tries again later.
func (a *indexActor) withoutStore(ctx *kernel.Context, err error) {
	if before := a.deps.View.Status().StorageTrouble; before != err.Error() {
		say := a.deps.Warn
		if a.deps.Brief && errors.Is(err, store.ErrLocked) {
			say = a.deps.Info
		}
		say("the index works in memory for now: what it learns is kept once it can be opened, which is tried every half a minute", "why", err)
	}
	a.report(func(s *Status) { s.Storage, s.StorageTrouble = StorageMemory, err.Error() })
	if !a.shelf.waiting {
		a.shelf.waiting = true
		wait := cmp.Or(a.deps.StoreRetry, storeRetry)
		// By chance a little longer, so that several hosts do not come at the
		// same moment.
		ctx.After(wait+rand.N(wait/2+1), &openAgain{}) //nolint:gosec // nobody gains by guessing it
	}
}

func (a *indexActor) onOpenAgain(ctx *kernel.Context) {
	a.shelf.waiting = false
	a.openStore(ctx)
}

// onKeepAgain tries to store what a full disk refused.
func (a *indexActor) onKeepAgain(ctx *kernel.Context) {
	a.shelf.unkept = false
	if a.shelf.store == nil {
		return // whoever opens it stores everything
	}
	for s := range a.deps.View.Load().All() {
		a.saves[s.Toolset.Server] = s.Toolset
	}
	a.keepVectors = true
	a.work(ctx)
}

// storeFailed looks whether the store can go on after an error.
func (a *indexActor) storeFailed(ctx *kernel.Context, err error) {
	if a.shelf.store == nil {
		return
	}
	if !errors.Is(err, store.ErrBroken) {
		if before := a.deps.View.Status().StorageTrouble; before != err.Error() {
			a.deps.Warn("the index store refuses a write; what was learned is kept in memory", "error", err)
		}
		a.report(func(s *Status) { s.StorageTrouble = err.Error() })
		if !a.shelf.unkept {
			a.shelf.unkept = true
			ctx.After(cmp.Or(a.deps.StoreRetry, storeRetry), &keepAgain{})
		}
		return
	}
	a.closeStore(ctx.System())
	a.withoutStore(ctx, err)
}

// closeStore closes the store once those who work with it are done.
func (a *indexActor) closeStore(sys *kernel.System) {
	st, deps := a.shelf.store, a.deps
	if st == nil {
		return
	}
	a.shelf.store = nil
	sys.Go(func(context.Context) { deps.closeShelf(st) }, nil)
}

// closeShelf closes a store; nil is none.
func (d *ActorDeps) closeShelf(st *store.Store) {
	if st == nil {
		return
	}
	if err := st.Close(); err != nil {
		d.Warn("the index store did not close in order", "error", err)
	}
}

// leaveStore closes the store when the actor ends, also one that somebody
// opens at that moment: nobody else would, and its lock would stay. What waits to
// be saved is saved before: the next host would have to ask those servers again.
func (a *indexActor) leaveStore(sys *kernel.System) {
	if a.shelf.opening != nil {
		a.shelf.store = a.shelf.opening.abandon()
		a.shelf.opening = nil
	}
	deps, st, before, last := a.deps, a.shelf.store, a.atDisk, &diskWork{saves: a.saves}
	a.shelf.store, a.saves = nil, nil
	sys.Go(func(context.Context) {
		if before != nil {
			<-before
		}
		deps.cache(last)
		if st == nil {
			return
		}
		if err := deps.keep(st, last); err != nil {
			deps.Warn("the index store refuses the last write; the servers will be asked again", "error", err)
		}
		deps.closeShelf(st)
	}, nil)
}

// openingShelf is a store on its way from the worker that opens it to the
// actor, which may end before it arrives.
type openingShelf struct {
	mu        sync.Mutex
	store     *store.Store // sent to the actor
	abandoned bool
}

// deliver says whether the actor is to get what was opened; if not, the worker
// closes it.
func (o *openingShelf) deliver(m *opened) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.store = m.store
	return !o.abandoned
}

// abandon makes the worker close what it opens, and returns what was sent
// already; nil: nothing.
func (o *openingShelf) abandon() *store.Store {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.abandoned = true
	return o.store
}

// savedAtOnce is how many listings are in memory once more at a time, as they are
// stored.
const savedAtOnce = 64

// keep writes listings and sweeps what is not needed any more; it runs on the
// worker that has the disk.
func (d *ActorDeps) keep(st *store.Store, job *diskWork) error {
	var failed []error
	saves, sweep := job.saves, job.sweep
	for servers := range slices.Chunk(slices.Collect(maps.Keys(saves)), savedAtOnce) {
		listings := make(map[string][]byte, len(servers))
		for _, server := range servers {
			raw, err := encodeToolset(saves[server])
			if err != nil || len(raw) > store.MaxListing || len(server) > store.MaxServerName {
				// It stays in memory. The store would refuse the others with it, and
				// would do so again however often that is tried.
				continue
			}
			listings[server] = raw
		}
		failed = append(failed, st.PutListings(listings))
	}
	if sweep != nil {
		_, err := st.DeleteListings(func(server string, raw []byte) bool {
			// Who loads a listing of the store puts it into the cache too, so the
			// cache knows which are in use.
			return sweep.servers[server] || !sweep.gone[server] && (d.Cache.has(server) || listedLately(raw))
		})
		failed = append(failed, err)
		if sweep.model != "" {
			failed = append(failed, sweep.vectors(st))
		}
		_, err = st.Compact()
		failed = append(failed, err)
	}
	if job.vectors != nil {
		failed = append(failed, keepVectors(st, job.vectors, job.background, job.model))
	}
	if job.figures {
		failed = append(failed, writeFigures(d.StorePath, st))
	}
	return errors.Join(failed...)
}

// keepVectors stores the vectors that tools got before the store was opened. One
// that it has already stays: what is held in memory is rounded.
func keepVectors(st *store.Store, c *Catalog, back *background, model string) error {
	var rows []*vector.Row
	var hashes [][32]byte
	seen := map[[32]byte]bool{}
	keep := func(p *passage) {
		row := p.of(model)
		if row.Dim() == 0 {
			return
		}
		if hash := p.key(); !seen[hash] {
			seen[hash] = true
			hashes, rows = append(hashes, hash), append(rows, row)
		}
	}
	for server := range c.All() {
		for _, e := range server.Entries {
			keep(e.passage)
		}
	}
	for _, p := range back.passages {
		keep(p)
	}
	there := make([]bool, len(hashes))
	if _, err := st.Vectors(model, hashes, func(i int, _ []float32) { there[i] = true }); err != nil {
		return err
	}
	var missing []store.Vector
	for i, row := range rows {
		if !there[i] {
			missing = append(missing, store.Vector{Hash: hashes[i], Values: row.Vector()})
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return st.PutVectors(model, missing)
}

// diskWork is what one worker does at the disk.
type diskWork struct {
	saves map[string]*messages.Toolset
	sweep *sweeping // nil: none
	// vectors is the catalog whose vectors by the model are to be stored; nil:
	// none.
	vectors    *Catalog
	background *background
	model      string
	// figures says that the store's figures are to be written down.
	figures bool
}

// sweeping is what is needed at the moment of a sweep.
type sweeping struct {
	servers, gone map[string]bool
	// catalog and model say whose vectors are needed; model is "" where none
	// are to be swept.
	catalog    *Catalog
	background *background
	model      string
}

// needed are the hashes of the vectors that the catalog uses.
func (s *sweeping) needed() map[[32]byte]struct{} {
	hashes := make(map[[32]byte]struct{}, s.catalog.Tools())
	for server := range s.catalog.All() {
		for _, e := range server.Entries {
			hashes[e.passage.key()] = struct{}{}
		}
	}
	s.background.keys(hashes)
	return hashes
}

// vectors deletes the vectors that neither the catalog uses nor a listing that
// stays in the store, and those of models that nobody has used for long: other
// configurations may have theirs there.
func (s *sweeping) vectors(st *store.Store) error {
	needed := s.needed()
	err := st.Listings(func(server string, raw []byte) error {
		if s.catalog.Server(server) != nil {
			return nil
		}
		if ts, err := decodeToolset(server, raw); err == nil {
			for _, e := range new(Catalog).With(ts, Labels{}).Server(server).Entries {
				needed[e.passage.key()] = struct{}{}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = st.Sweep(s.model, func(hash [32]byte) bool { _, ok := needed[hash]; return ok }, unusedFor)
	return err
}

// listedLately reports whether a stored listing is new enough to be some
// configuration's.
func listedLately(raw []byte) bool {
	line, _, _ := bytes.Cut(raw, []byte{'\n'})
	head, err := parseHead(line)
	return err == nil && time.Since(head.Fetched) < unusedFor
}
