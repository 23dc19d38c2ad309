package metamcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/metamcp/metamcp/index"
)

// SearchScore is how well the right tools were found, each figure in [0,1] and
// the mean over queries: the share of what a query needs within the first five
// results, nDCG of the first ten, and 1/rank of the first right one of ten.
type SearchScore struct {
	Source   string  `json:"source,omitempty"` // "": the mean over sources
	Queries  int     `json:"queries"`          // that were scored
	Recall5  float64 `json:"recallAt5"`
	NDCG10   float64 `json:"ndcgAt10"`
	MRR      float64 `json:"mrr"`
	unscored int
}

const (
	recallDepth = 5
	scoreDepth  = 10
	// maxNothing bounds the ids of queries that found nothing.
	maxNothing = 20
)

// benchNeed is one right tool of a query: "server/tool", or an object as in the
// retrieval benchmark, in which those of one group are alternatives.
type benchNeed struct {
	id    string
	group int
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *benchNeed) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, &n.id) == nil {
		return nil
	}
	var o struct {
		Server string `json:"server"`
		Tool   string `json:"tool"`
		Group  int    `json:"group"`
	}
	if err := json.Unmarshal(raw, &o); err != nil || o.Server == "" || o.Tool == "" {
		return errors.New(`a right tool is "server/tool" or {"server", "tool", "group"?}`)
	}
	n.id, n.group = o.Server+"/"+o.Tool, o.Group
	return nil
}

// needs gives each right tool the number of the need that it meets.
func needs(relevant []benchNeed, catalog *index.Catalog) (of map[string]int, count int, err error) {
	known := map[string]bool{}
	for server := range catalog.All() {
		for _, e := range server.Entries {
			known[e.Tool.Server+"/"+e.Tool.Name] = true
		}
	}
	of = map[string]int{}
	groups := map[int]int{}
	for _, n := range relevant {
		if !known[n.id] {
			return nil, 0, fmt.Errorf("its right tool %q is not in the catalog of its source", n.id)
		}
		if _, twice := of[n.id]; twice {
			continue
		}
		need, joins := groups[n.group]
		if n.group == 0 || !joins {
			need = count
			count++
			groups[n.group] = need
		}
		of[n.id] = need
	}
	return of, count, nil
}

// score adds what one query's results, best first, are worth.
func (s *SearchScore) score(results []benchHit, of map[string]int, count int) {
	s.Queries++
	met := make([]bool, count)
	first := true
	var gain, ideal float64
	for rank := 1; rank <= min(count, scoreDepth); rank++ {
		ideal += discount(rank)
	}
	for i, hit := range results[:min(len(results), scoreDepth)] {
		need, right := of[hit.Server+"/"+hit.Tool]
		if !right || met[need] {
			continue
		}
		met[need] = true
		rank := i + 1
		if first {
			s.MRR += 1 / float64(rank)
			first = false
		}
		if rank <= recallDepth {
			s.Recall5 += 1 / float64(count)
		}
		gain += discount(rank)
	}
	s.NDCG10 += gain / ideal
}

func discount(rank int) float64 { return 1 / math.Log2(float64(rank)+1) }

// scored returns the means of each source, by name, and those over sources,
// which count alike; nil where no query has right tools.
func scored(bySource map[string]*SearchScore) (scores []SearchScore, macro *SearchScore, unscored int) {
	macro = &SearchScore{}
	for source, s := range bySource {
		unscored += s.unscored
		if s.Queries == 0 {
			continue
		}
		n := float64(s.Queries)
		mean := SearchScore{Source: source, Queries: s.Queries, Recall5: s.Recall5 / n, NDCG10: s.NDCG10 / n, MRR: s.MRR / n}
		scores = append(scores, mean)
		macro.Queries += mean.Queries
		macro.Recall5 += mean.Recall5
		macro.NDCG10 += mean.NDCG10
		macro.MRR += mean.MRR
	}
	if len(scores) == 0 {
		return nil, nil, unscored
	}
	slices.SortFunc(scores, func(a, b SearchScore) int {
		if a.Source < b.Source {
			return -1
		}
		return 1
	})
	n := float64(len(scores))
	macro.Recall5, macro.NDCG10, macro.MRR = macro.Recall5/n, macro.NDCG10/n, macro.MRR/n
	return scores, macro, unscored
}
