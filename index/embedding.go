package index

import (
	"context"
	"crypto/sha256"
	"iter"
	"runtime"
	"slices"
	"time"

	"github.com/metamcp/metamcp/index/embed"
	"github.com/metamcp/metamcp/index/store"
	"github.com/metamcp/metamcp/index/vector"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// sweepAfter is how many new vectors make a look for those that no tool uses
// any more worth while before its time.
const sweepAfter = 4096

// Retries of an embedder that fails in the background; the last one is also how long
// queries do without one that somebody has to mend.
const (
	firstEmbedRetry = 5 * time.Second
	lastEmbedRetry  = 5 * time.Minute
)

// UseEmbedder makes the index embed with another embedder, which belongs to
// the index from then on; nil: words alone count.
type UseEmbedder struct{ Embedder embed.Embedder }

// Settle asks to be told when there is nothing to embed, or no way to. Done is
// closed then. It begins the work if nobody did.
type Settle struct{ Done chan<- struct{} }

// maxSettling bounds those who wait for that; more are told at once.
const maxSettling = 1024

type (
	// embedded is what one step of the embedding worker brought.
	embedded struct {
		embedder *sharedEmbedder
		catalog  *Catalog
		vectors  []vectorOf
		// wanted counts the enabled tools, missing those without a vector
		// before the step, and held those of them that have to wait because
		// their server changes its tools too often.
		wanted, missing, held int
		texts                 []string       // that the embedder was asked for
		spent                 map[string]int // of those, by server
		fromStore             bool
		background            bool // vectors are those of the background
		ended                 bool // the host ends, or the embedder does
		err                   *embed.Error
		storeErr              error
	}
	vectorOf struct {
		passage *passage
		vector  *embedding
	}
	embedAgain struct{ embedder *sharedEmbedder }
	embedPaced struct{} // servers may have earned new tokens
)

// embeddingWork is the part of the index actor that turns tools into vectors. One
// worker at a time does one step: it looks for vectors in the store, or embeds
// one batch and stores it.
type embeddingWork struct {
	embedder *sharedEmbedder
	working  bool
	failures int // in a row
	resting  bool
	stored   int // vectors since the last sweep
	paces    paces
	// background is shared with the View.
	background *background
	pacing     bool // embedPaced is on its way
	settling   []chan<- struct{}
}

func (a *indexActor) onSettle(ctx *kernel.Context, m *Settle) {
	a.onBegin(ctx)
	if len(a.embed.settling) == maxSettling {
		close(m.Done)
		return
	}
	a.embed.settling = append(a.embed.settling, m.Done)
	a.settle()
}

// settle tells those who wait, if all is done.
func (a *indexActor) settle() {
	w := &a.embed
	if a.shelf.opening != nil || w.working || w.embedder != nil && !w.resting && !a.deps.View.Status().Settled {
		return
	}
	for _, done := range w.settling {
		close(done)
	}
	w.settling = nil
}

func (a *indexActor) onUseEmbedder(ctx *kernel.Context, m *UseEmbedder) {
	old := a.embed.embedder
	a.embed.embedder, a.embed.failures, a.embed.resting, a.embed.paces = nil, 0, false, paces{}
	if m.Embedder != nil {
		a.embed.embedder = share(m.Embedder)
	}
	a.deps.View.embedder.Store(a.embed.embedder)
	if old != nil {
		a.endEmbedder(ctx.System(), old)
	}
	a.report(func(s *Status) {
		s.Trouble, s.Model, s.Embedded, s.Settled = nil, "", 0, m.Embedder == nil
		if m.Embedder != nil {
			s.Model = a.embed.embedder.model
		}
	})
	a.embedNext(ctx)
	a.settle()
}

func (a *indexActor) endEmbedder(sys *kernel.System, e *sharedEmbedder) {
	warn := a.deps.Warn
	sys.Go(func(context.Context) {
		if err := e.end(); err != nil {
			warn("an embedder did not end in order", "model", e.model, "error", err)
		}
	}, nil)
}

// embedNext starts the next step where there may be something to do.
func (a *indexActor) embedNext(ctx *kernel.Context) {
	e := a.embed.embedder
	if !a.begun || a.shelf.opening != nil || e == nil || a.embed.working || a.embed.resting {
		return
	}
	a.embed.working = true
	sys, self, catalog, back, st := ctx.System(), ctx.Self(), a.deps.View.Load(), a.embed.background, a.shelf.store
	spent, first := a.embed.paces.spent(catalog.toolsOf, time.Now()), a.deps.View.look
	sys.Go(func(ctx context.Context) {
		sys.Send(self, embedStep(ctx, catalog, back, e, st, spent, first))
	}, func(any) {
		sys.Send(self, &embedded{embedder: e, catalog: catalog, err: &embed.Error{
			Reason: embed.Unavailable, Message: "embedding broke inside metamcp; the log says more",
		}})
	})
}

// embedStep does one step; st may be nil, spent is what servers have used up of what
// they may have embedded, and first ends once there is nothing left to do but to embed.
// The background comes first.
func embedStep(ctx context.Context, catalog *Catalog, back *background, e *sharedEmbedder, st *store.Store, spent map[string]int, first *look) *embedded {
	step := &embedded{embedder: e, catalog: catalog, spent: map[string]int{}}
	if !e.use() {
		return step
	}
	defer e.done()
	ctx, cancel := e.while(ctx)
	defer cancel()
	if pending := back.pending(e.model); len(pending) > 0 && catalog.Tools() > 0 {
		step.background = true
		if st == nil || !step.find([][]*passage{pending}, st) {
			first.end()
			step.embed(ctx, slices.Values(pending), st)
		}
		return step
	}
	var waiting [][]*passage // by server
	var servers []string     // of waiting
	for server := range catalog.All() {
		var pending []*passage
		for _, entry := range server.Entries {
			if !entry.Enabled {
				continue
			}
			step.wanted++
			if have := entry.passage.vector.Load(); have == nil || have.model != e.model {
				pending = append(pending, entry.passage)
			}
		}
		if len(pending) > 0 {
			waiting, servers = append(waiting, pending), append(servers, server.Toolset.Server)
			step.missing += len(pending)
		}
	}
	if st != nil && step.find(waiting, st) {
		return step
	}
	if step.missing > 0 {
		first.end()
	}
	for i, pending := range waiting {
		may := max(0, paceOf(catalog.toolsOf(servers[i]))-spent[servers[i]])
		if held := len(pending) - may; held > 0 {
			step.held += held
			waiting[i] = pending[:may]
		}
	}
	step.embed(ctx, func(yield func(*passage) bool) {
		for p, server := range inTurn(waiting) {
			before := len(step.texts)
			if !yield(p) {
				return
			}
			if len(step.texts) > before {
				step.spent[servers[server]]++
			}
		}
	}, st)
	return step
}

// embed embeds as many of the passages as make one batch, and stores them.
// Several may say the same: they are embedded once.
func (s *embedded) embed(ctx context.Context, pending iter.Seq[*passage], st *store.Store) {
	same := make(map[[sha256.Size]byte][]*passage)
	var hashes [][sha256.Size]byte
	for p := range pending {
		hash := p.key()
		if same[hash] == nil {
			if len(s.texts) == max(1, s.embedder.Batch()) {
				continue
			}
			s.texts, hashes = append(s.texts, p.embeddable()), append(hashes, hash)
		}
		same[hash] = append(same[hash], p)
	}
	if len(s.texts) == 0 {
		return
	}
	vectors, err := s.embedder.Embed(ctx, embed.Document, s.texts)
	if err != nil {
		s.ended = ctx.Err() != nil
		s.err = asEmbedError(err)
		return
	}
	var keep []store.Vector
	for i, v := range vectors {
		s.take(same[hashes[i]], v)
		if len(v) > 0 {
			keep = append(keep, store.Vector{Hash: hashes[i], Values: v})
		}
	}
	if st != nil && len(keep) > 0 {
		s.storeErr = st.PutVectors(s.embedder.model, keep)
	}
}

// inTurn yields the servers' passages, each with the number of its server, one
// of each server at a time, so that a server that changes its tools for ever
// does not keep those of others waiting.
func inTurn(waiting [][]*passage) iter.Seq2[*passage, int] {
	return func(yield func(*passage, int) bool) {
		left := make([]int, len(waiting))
		for i := range left {
			left[i] = i
		}
		for turn := 0; len(left) > 0; turn++ {
			left = slices.DeleteFunc(left, func(i int) bool { return turn >= len(waiting[i]) })
			for _, i := range left {
				if !yield(waiting[i][turn], i) {
					return
				}
			}
		}
	}
}

// find looks in the store for vectors that were not looked for yet, and
// reports whether it found any.
func (s *embedded) find(waiting [][]*passage, st *store.Store) bool {
	same := make(map[[sha256.Size]byte][]*passage)
	var hashes [][sha256.Size]byte
	var sought []*passage
	for _, p := range slices.Concat(waiting...) {
		if p.sought == s.embedder.model {
			continue
		}
		sought = append(sought, p)
		runtime.Gosched() // searches go on meanwhile
		hash := p.key()
		if same[hash] == nil {
			hashes = append(hashes, hash)
		}
		same[hash] = append(same[hash], p)
	}
	if len(hashes) == 0 {
		return false
	}
	found, err := st.Vectors(s.embedder.model, hashes, func(i int, v []float32) {
		s.take(same[hashes[i]], v)
	})
	if err == nil {
		for _, p := range sought {
			p.sought = s.embedder.model
		}
	}
	s.storeErr = err
	s.fromStore = found > 0
	return found > 0
}

// take makes v, of which nothing is kept, the vector of passages that say the same.
// It is held once for all of them.
func (s *embedded) take(same []*passage, v []float32) {
	e := &embedding{s.embedder.model, vector.NewRow(v)}
	for _, p := range same {
		s.vectors = append(s.vectors, vectorOf{p, e})
	}
}

func (a *indexActor) onEmbedded(ctx *kernel.Context, m *embedded) {
	a.embed.working = false
	defer a.settle()
	if m.ended && m.embedder == a.embed.embedder {
		a.embed.resting = true
		return
	}
	if m.storeErr != nil {
		a.storeFailed(ctx, m.storeErr)
	}
	if m.embedder != a.embed.embedder {
		a.embedNext(ctx)
		return
	}
	for _, v := range m.vectors {
		v.passage.vector.Store(v.vector)
	}
	if m.background && m.err == nil {
		a.embed.failures = 0
		a.embedNext(ctx)
		return
	}
	if len(m.vectors) > 0 {
		a.deps.View.generation.Add(1)
	}
	left := m.missing - len(m.vectors)
	settled := left <= m.held || m.err != nil
	a.report(func(s *Status) {
		s.Settled, s.Trouble = settled, m.err
		if m.background {
			return // it says nothing of the tools
		}
		s.Wanted, s.Embedded, s.Held = m.wanted, m.wanted-left, m.held
		if m.fromStore {
			s.FromStore += len(m.vectors)
		} else {
			s.Fresh += len(m.vectors)
		}
	})
	if settled && m.catalog.Tools() > 0 {
		a.deps.View.look.end()
	}
	if m.err != nil {
		a.embedFailed(ctx, m)
		return
	}
	a.embed.failures = 0
	for server, n := range m.spent {
		a.embed.paces.spend(server, n, m.catalog.toolsOf(server), time.Now())
	}
	if m.held > 0 && !a.embed.pacing {
		a.embed.pacing = true
		ctx.After(paceWake, &embedPaced{})
	}
	if !m.fromStore {
		a.embed.stored += len(m.vectors)
	}
	if most := max(sweepAfter, 2*m.wanted); a.shelf.store != nil && a.embed.stored > most {
		// Tools change faster than once an hour.
		a.embed.stored, a.swept, a.prune = 0, time.Time{}, true
	}
	if settled && len(m.vectors) > 0 {
		a.figures = true
	}
	a.work(ctx)
	if left > m.held || m.catalog != a.deps.View.Load() {
		a.embedNext(ctx)
	}
}

// embedFailed waits before the next try: longest where somebody has to mend something
// first, since that may be done outside the configuration, of which nobody would hear.
func (a *indexActor) embedFailed(ctx *kernel.Context, m *embedded) {
	a.embed.resting = true
	if a.embed.failures == 0 {
		a.deps.Warn("tools cannot be embedded; search goes by their words", "model", m.embedder.model, "why", m.err)
	}
	wait := min(firstEmbedRetry<<min(a.embed.failures, 10), lastEmbedRetry)
	if m.err.Reason.Permanent() {
		wait = lastEmbedRetry
	}
	wait = max(m.err.RetryAfter, wait)
	a.embed.failures++
	ctx.After(wait, &embedAgain{m.embedder})
}

func (a *indexActor) onEmbedAgain(ctx *kernel.Context, m *embedAgain) {
	if m.embedder != a.embed.embedder {
		return
	}
	a.embed.resting = false
	a.embedNext(ctx)
}

// report publishes a changed status.
func (a *indexActor) report(change func(*Status)) {
	s := a.deps.View.Status()
	change(&s)
	a.deps.View.status.Store(&s)
}
