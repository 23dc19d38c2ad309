package index

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/index/embed"
)

// restAfterFailure is how long queries do without an embedder that failed and
// did not say when to come again.
const restAfterFailure = 10 * time.Second

// A sharedEmbedder is an embedder that several use and one closes.
type sharedEmbedder struct {
	embed.Embedder
	model string

	mu     sync.Mutex
	closed bool
	users  sync.WaitGroup
	// ending ends with giveUp: what is done for tools by then is of no use any more.
	ending context.Context
	giveUp context.CancelFunc

	rest atomic.Pointer[rest]
}

// rest is the time in which an embedder is not asked for queries.
type rest struct {
	until time.Time
	why   *embed.Error
}

func share(e embed.Embedder) *sharedEmbedder {
	s := &sharedEmbedder{Embedder: e, model: e.Model()}
	s.ending, s.giveUp = context.WithCancel(context.Background())
	return s
}

// use reports whether the embedder may be used; whoever hears yes calls done.
func (s *sharedEmbedder) use() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.users.Add(1)
	return true
}

func (s *sharedEmbedder) done() { s.users.Done() }

// while returns a context that ends with the embedder too.
func (s *sharedEmbedder) while(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ending, cancel)
	return ctx, func() { stop(); cancel() }
}

// end gives up the work for tools, which may take a cloud minutes and hold up the
// embedder that comes after, waits for the queries, and closes the embedder.
func (s *sharedEmbedder) end() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.giveUp()
	s.users.Wait()
	return s.Close()
}

// resting returns why the embedder is not to be asked now, or nil.
func (s *sharedEmbedder) resting() *embed.Error {
	if r := s.rest.Load(); r != nil && time.Now().Before(r.until) {
		return r.why
	}
	return nil
}

// query embeds what of a query wants a vector, within the patience of a search.
// An embedder that fails rests for a while, so that a dead one does not slow every
// search; that who asks goes away says nothing of it.
func (s *sharedEmbedder) query(parent context.Context, texts []string) ([][]float32, *embed.Error) {
	if why := s.resting(); why != nil {
		return nil, why
	}
	ctx, cancel := context.WithTimeout(parent, queryPatience)
	defer cancel()
	vectors, err := s.Embed(ctx, embed.Query, texts)
	if err == nil {
		return vectors, nil
	}
	why := asEmbedError(err)
	if parent.Err() != nil {
		return nil, why
	}
	pause := restAfterFailure
	if why.Reason.Permanent() {
		pause = lastEmbedRetry
	}
	s.rest.Store(&rest{time.Now().Add(max(why.RetryAfter, pause)), why})
	return nil, why
}
