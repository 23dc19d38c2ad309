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
)

// A Searcher searches the newest catalog, by meaning too where there is an
// embedder. Any goroutine may use it.
type Searcher struct {
	view       *View
	remembered *lru.Cache[string, []float32]
}

// NewSearcher returns a searcher of what view shows.
func NewSearcher(view *View) *Searcher {
	remembered, _ := lru.New[string, []float32](rememberedTexts) // fails only for a size below 1
	return &Searcher{view: view, remembered: remembered}
}

// Search finds tools. An embedder that is missing, slow or broken never fails
// a search: the words alone decide then, and note says why; note is "" where
// all went well.
func (s *Searcher) Search(ctx context.Context, r Ranker, q Query) (matches []Match, note string) {
	c := s.view.Load()
	q.Meaning, note = s.meaning(ctx, r.Texts(q.Text), c.Tools())
	return r.Search(c, q), note
}

func (s *Searcher) meaning(ctx context.Context, texts []string, tools int) (*Meaning, string) {
	e := s.view.embedder.Load()
	if e == nil || len(texts) == 0 || !e.use() {
		return nil, ""
	}
	defer e.done()
	m := &Meaning{Model: e.model, Vectors: make([][]float32, len(texts)), generation: s.view.generation.Load(), background: s.view.background.of(e.model)}
	var missing []string
	var places []int
	for i, t := range texts {
		if v, ok := s.remembered.Get(e.model + "\x00" + t); ok {
			m.Vectors[i] = v
			continue
		}
		missing, places = append(missing, t), append(places, i)
	}
	if len(missing) > 0 {
		vectors, why := e.query(ctx, missing)
		if why != nil {
			return nil, "The embedder is not usable, so words alone decided the order: " + why.Error()
		}
		for i, v := range vectors[:min(len(vectors), len(places))] {
			m.Vectors[places[i]] = v
			s.remembered.Add(e.model+"\x00"+missing[i], v)
		}
	}
	switch st := s.view.Status(); {
	case st.Model != e.model:
		return m, ""
	case st.Trouble != nil && tools > 0 && (st.Wanted == 0 || st.Embedded < st.Wanted):
		return m, "Not all tools could be embedded; the others are found by their words alone: " + st.Trouble.Error()
	case st.Settled && st.Held > 0:
		return m, fmt.Sprintf("%d tools whose server changes them all the time are found by their words alone.", st.Held)
	case st.Settled:
		return m, ""
	case st.Wanted == 0 && tools > 0:
		return m, "The tools are about to be embedded; until then they are found by their words alone."
	case st.Embedded < st.Wanted:
		return m, fmt.Sprintf("%d of %d tools are embedded so far; the others are found by their words alone.", st.Embedded, st.Wanted)
	}
	return m, ""
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
