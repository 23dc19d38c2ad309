package actors

import (
	"context"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/index/embed"
)

// Search finds tools in the newest catalog; see [index.Searcher].
func (e *Engine) Search(ctx context.Context, r index.Ranker, q index.Query) (matches []index.Match, note string, soon bool) {
	e.BeginSearch()
	return e.searcher.Search(ctx, r, q)
}

// BeginSearch makes the index open its store and embed tools in the
// background, if nothing did before.
func (e *Engine) BeginSearch() {
	if e.began.CompareAndSwap(false, true) {
		e.sys.Send(e.index, &index.Begin{})
	}
}

// UseEmbedder makes the index embed with another embedder, which it closes in
// the end; nil: words alone count.
func (e *Engine) UseEmbedder(with embed.Embedder) {
	e.sys.Send(e.index, &index.UseEmbedder{Embedder: with})
}

// Settle waits until all tools that are known are embedded, or cannot be, or
// until ctx or the runtime ends.
func (e *Engine) Settle(ctx context.Context) error {
	e.began.Store(true)
	done := make(chan struct{})
	e.sys.Send(e.index, &index.Settle{Done: done})
	_, err := await(ctx, e, done)
	return err
}

// IndexStatus says how the index does.
func (e *Engine) IndexStatus() index.Status { return e.view.Status() }
