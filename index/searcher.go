package index

import (
	"context"
	"errors"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/metamcp/metamcp/index/embed"
)

const (
	// queryPatience is how long a search waits for the query's vector. Those
	// that wait for it are people and models.
	queryPatience = 3 * time.Second
	// rememberedTexts is how many texts of queries keep their vector, since
	// agents ask the same again.
	rememberedTexts = 1024
	// lookPatience is how long the first searches wait, from their beginning, until
	// the vectors that the store has are there. Most of it goes by while the embedder
	// reads its model for the query.
	lookPatience = 100 * time.Millisecond
)

// A Searcher searches the newest catalog, by meaning too where there is an
// embedder. Any goroutine may use it.
type Searcher struct {
	view       *View
	remembered *lru.Cache[string, []float32]
	patience   time.Duration // with the look into the store
}

// NewSearcher returns a searcher of what view shows.
func NewSearcher(view *View) *Searcher {
	remembered, _ := lru.New[string, []float32](rememberedTexts) // fails only for a size below 1
	return &Searcher{view: view, remembered: remembered, patience: lookPatience}
}

// Search finds tools. An embedder that is missing, slow or broken never fails
// a search: the words alone decide then, and note says why; note is "" where
// all went well. soon says that the tools are being embedded, so that the same search
// may find more in a moment.
func (s *Searcher) Search(ctx context.Context, r Ranker, q Query) (matches []Match, note string, soon bool) {
	q.Meaning, note, soon = s.meaning(ctx, r.Texts(q.Text))
	return r.Search(s.view.Load(), q), note, soon
}

func (s *Searcher) meaning(ctx context.Context, texts []string) (m *Meaning, note string, soon bool) {
	e := s.view.embedder.Load()
	if e == nil || len(texts) == 0 || !e.use() {
		return nil, "", false
	}
	defer e.done()
	until := time.Now().Add(s.patience)
	vectors, why := s.vectors(ctx, e, texts)
	if why != nil {
		return nil, "The embedder is not usable, so words alone decided the order: " + why.Error(), false
	}
	tools := s.view.Load().Tools()
	if tools > 0 {
		s.view.look.wait(ctx, until)
	}
	m = &Meaning{Model: e.model, Vectors: vectors, generation: s.view.generation.Load(), background: s.view.background.of(e.model)}
	switch st := s.view.Status(); {
	case st.Model != e.model:
		return m, "", false
	case st.Trouble != nil && tools > 0 && (st.Wanted == 0 || st.Embedded < st.Wanted):
		return m, "Not all tools could be embedded; the others are found by their words alone: " + st.Trouble.Error(), false
	case st.Settled && st.Held > 0:
		return m, fmt.Sprintf("%d tools whose server changes them all the time are found by their words alone.", st.Held), false
	case st.Settled:
		return m, "", false
	case st.Wanted == 0 && tools > 0:
		return m, "The tools are about to be embedded; until then they are found by their words alone.", true
	case st.Embedded < st.Wanted:
		return m, fmt.Sprintf("%d of %d tools are embedded so far; the others are found by their words alone.", st.Embedded, st.Wanted), true
	}
	return m, "", false
}

// vectors are those of a query's texts: remembered, or from the embedder.
func (s *Searcher) vectors(ctx context.Context, e *sharedEmbedder, texts []string) ([][]float32, *embed.Error) {
	all := make([][]float32, len(texts))
	var missing []string
	var places []int
	for i, t := range texts {
		if v, ok := s.remembered.Get(e.model + "\x00" + t); ok {
			all[i] = v
			continue
		}
		missing, places = append(missing, t), append(places, i)
	}
	if len(missing) == 0 {
		return all, nil
	}
	fresh, why := e.query(ctx, missing)
	if why != nil {
		return nil, why
	}
	for i, v := range fresh[:min(len(fresh), len(places))] {
		all[places[i]] = v
		s.remembered.Add(e.model+"\x00"+missing[i], v)
	}
	return all, nil
}

// asEmbedError makes any error of an embedder one with a reason.
func asEmbedError(err error) *embed.Error {
	var own *embed.Error
	if errors.As(err, &own) {
		return own
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &embed.Error{Reason: embed.Unavailable, Message: "the embedder did not answer in time", Cause: err}
	}
	return &embed.Error{Reason: embed.Unavailable, Message: "the embedder failed: " + err.Error(), Cause: err}
}
