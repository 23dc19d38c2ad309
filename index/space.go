package index

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/metamcp/metamcp/index/rank"
	"github.com/metamcp/metamcp/index/vector"
)

// A space is a catalog made ready for the hybrid ranking: its tools as numbered
// documents, in the order of the catalog, and the index over their terms.
// It never changes, but for vectors that arrive later.
type space struct {
	index   *rank.Index
	entries []*Entry
	servers []*ServerEntry
	first   []int // the first document of each server; one more at the end
	of      []int32

	vectors atomic.Pointer[vectorSet]
}

type vectorSet struct {
	model      string
	generation uint64
	set        *vector.Set
}

// analyseChunk is how many tools an analysing goroutine takes at a time.
const analyseChunk = 64

// ready returns the space of the catalog. The first caller makes it, which
// takes some milliseconds for each thousand tools that were not seen before;
// others wait. Where all tools say what they said in the space before, as after
// the start of a child that lists what it listed last time, its index is taken.
func (c *Catalog) ready() *space {
	if c == nil {
		return newSpace(nil, nil)
	}
	c.searchable.Do(func() {
		latest := c.spaces()
		c.space = newSpace(c, latest.Load())
		latest.Store(c.space)
	})
	return c.space
}

func newSpace(c *Catalog, before *space) *space {
	s := &space{entries: make([]*Entry, 0, c.Tools()), of: make([]int32, 0, c.Tools())}
	for server := range c.All() {
		s.first = append(s.first, len(s.entries))
		for _, e := range server.Entries {
			s.entries = append(s.entries, e)
			s.of = append(s.of, int32(len(s.servers)))
		}
		s.servers = append(s.servers, server)
	}
	s.first = append(s.first, len(s.entries))
	if s.saysAs(before) {
		s.index = before.index
		s.vectors.Store(before.vectors.Load())
		return s
	}
	terms := make([]*rank.Terms, len(s.entries))
	var next atomic.Int64
	analyse := func() {
		for {
			from := int(next.Add(analyseChunk)) - analyseChunk
			if from >= len(terms) {
				return
			}
			for i := from; i < min(from+analyseChunk, len(terms)); i++ {
				terms[i] = s.entries[i].passage.analysed()
			}
		}
	}
	var others sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(terms)/analyseChunk+1) - 1 {
		others.Go(analyse)
	}
	analyse()
	others.Wait()
	s.index = rank.Build(terms)
	return s
}

// saysAs reports whether all documents are those of another space.
func (s *space) saysAs(o *space) bool {
	return o != nil && slices.EqualFunc(s.entries, o.entries, func(x, y *Entry) bool { return x.passage == y.passage })
}

// with returns the tools' vectors by a model. generation tells whether vectors
// have come since the set was made last.
func (s *space) with(model string, generation uint64) *vector.Set {
	if v := s.vectors.Load(); v != nil && v.model == model && v.generation == generation {
		return v.set
	}
	rows := make([]*vector.Row, len(s.entries))
	for i, e := range s.entries {
		rows[i] = e.passage.of(model)
	}
	v := &vectorSet{model: model, generation: generation, set: vector.NewSet(rows)}
	s.vectors.Store(v)
	return v.set
}
