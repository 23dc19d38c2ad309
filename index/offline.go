package index

import (
	"context"

	"github.com/metamcp/metamcp/index/embed"
)

// Offline returns a searcher over a catalog that never changes, for programs
// without an index actor. Its tools are embedded first, in the way that the
// actor does it; e may be nil. progress, which may be nil, is called between
// batches. The caller closes e.
func Offline(ctx context.Context, c *Catalog, e embed.Embedder, progress func(done, total int)) (*Searcher, error) {
	back := newBackground()
	view := &View{background: back}
	view.p.Store(c)
	if e == nil {
		return NewSearcher(view), nil
	}
	shared := share(e)
	view.embedder.Store(shared)
	for {
		step := embedStep(ctx, c, back, shared, nil, nil, nil)
		if step.err != nil {
			return nil, step.err
		}
		for _, v := range step.vectors {
			v.passage.vector.Store(v.vector)
		}
		if step.background {
			continue
		}
		view.generation.Add(1)
		left := step.missing - len(step.vectors)
		if progress != nil {
			progress(step.wanted-left, step.wanted)
		}
		if left == 0 {
			return NewSearcher(view), nil
		}
	}
}
