package rank

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/metamcp/metamcp/index/vector"
)

var crowdVerbs = strings.Fields("get list create delete update search find read write send run check start stop export import convert merge add remove")
var crowdNouns = strings.Fields("file user issue repository message channel event secret table query page screenshot pod deployment bucket object invoice order " +
	"customer product route address forecast alert price chart report document image video audio track playlist task project board card branch commit release " +
	"package version log metric trace dashboard policy role token key certificate domain record zone server cluster node volume snapshot backup function job " +
	"queue topic stream schema column row index view model dataset experiment prompt")
var crowdWords = strings.Fields("the a of to for with from by in on and or all given new existing specified optional current returns details name number value text " +
	"path list results filters date time size type status format default maximum limit cursor json string identifier account workspace organization region")

// crowd makes up a catalog of n tools, 20 a server, always the same.
func crowd(n int) []Doc {
	r := rand.New(rand.NewPCG(7, 8))
	pick := func(words []string) string { return words[int(math.Pow(r.Float64(), 1.5)*float64(len(words)))] }
	docs := make([]Doc, n)
	for i := range docs {
		server := fmt.Sprintf("%s-%s-%d", pick(crowdNouns), pick(crowdNouns), i/20)
		verb, noun := pick(crowdVerbs), pick(crowdNouns)
		d := Doc{Server: server, Tool: verb + "_" + noun + "_" + pick(crowdNouns)}
		var text []string
		for range 10 + r.IntN(30) {
			if r.IntN(3) == 0 {
				text = append(text, pick(crowdNouns))
			} else {
				text = append(text, pick(crowdWords))
			}
		}
		d.Description = verb + " " + noun + " " + strings.Join(text, " ") + fmt.Sprintf(" kind%d", r.IntN(n))
		for range r.IntN(7) {
			d.Params = append(d.Params, Param{pick(crowdNouns) + "_" + pick(crowdWords), "The " + pick(crowdWords) + " of the " + pick(crowdNouns) + " to " + verb})
		}
		docs[i] = d
	}
	return docs
}

func crowdQueries(n int) []string {
	r := rand.New(rand.NewPCG(9, 10))
	queries := make([]string, n)
	for i := range queries {
		noun := func() string { return crowdNouns[r.IntN(len(crowdNouns))] }
		verb := func() string { return crowdVerbs[r.IntN(len(crowdVerbs))] }
		switch i % 5 {
		case 0:
			queries[i] = verb() + " " + noun()
		case 1:
			queries[i] = "please " + verb() + " all the " + noun() + " of my " + noun() + " with their " + noun() + " names"
		case 2:
			queries[i] = noun()
		case 3:
			queries[i] = "how do I " + verb() + " a " + noun() + "x from the " + noun() + " in region Atlantis"
		default:
			queries[i] = fmt.Sprintf("First %s the %s of customer Smith. Then %s a %s with the %s. Finally %s it to the %s, and tell the %s.",
				verb(), noun(), verb(), noun(), noun(), verb(), noun(), noun())
		}
	}
	return queries
}

func unit(r *rand.Rand, dim int) []float32 {
	v, sum := make([]float32, dim), 0.0
	for i := range v {
		v[i] = float32(r.NormFloat64())
		sum += float64(v[i]) * float64(v[i])
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(sum))
	}
	return v
}

func setOf(vectors [][]float32) *vector.Set {
	rows := make([]*vector.Row, len(vectors))
	for i, v := range vectors {
		if v != nil {
			rows[i] = vector.NewRow(v)
		}
	}
	return vector.NewSet(rows)
}

func crowdVectors(n, dim int) *vector.Set {
	r := rand.New(rand.NewPCG(11, 12))
	rows := make([][]float32, n)
	for i := range rows {
		rows[i] = unit(r, dim)
	}
	return setOf(rows)
}

func TestWhatEveryAnswerHolds(t *testing.T) {
	docs := append(crowd(300), shop...)
	ix := build(docs)
	const dim = 8
	words := slices.Concat(crowdNouns, crowdVerbs, crowdWords, []string{"take_screenshot", "slack", "xyzzy", "scrennshot", ".", "\n", "股票", "\xff"})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, 30).Draw(t, "text"), " ")
		seed := rapid.Uint64().Draw(t, "seed")
		r := rand.New(rand.NewPCG(seed, 1))
		q := Query{Text: text, Limit: rapid.IntRange(-1, 120).Draw(t, "limit")}
		disabled, on := r.Uint64(), r.Uint64()
		q.Allowed = func(d int) bool { return disabled>>(d%64)&1 == 0 }
		q.Connected = func(d int) bool { return on>>(d/20%64)&1 == 1 }
		if rapid.Bool().Draw(t, "vectors") {
			rows := make([][]float32, len(docs))
			for i := range rows {
				if r.IntN(4) > 0 {
					rows[i] = unit(r, dim)
				}
			}
			q.Docs = setOf(rows)
			for range Texts(text) {
				q.Vectors = append(q.Vectors, unit(r, dim))
			}
		}
		hits := ix.Search(q)
		limit := q.Limit
		if limit <= 0 {
			limit = 20
		}
		if len(hits) > limit {
			t.Fatalf("%d hits, limit %d", len(hits), limit)
		}
		seen, exactEnded := map[int]bool{}, false
		for i, h := range hits {
			switch {
			case seen[h.Doc]:
				t.Fatalf("document %d twice", h.Doc)
			case !q.Allowed(h.Doc):
				t.Fatalf("document %d is not allowed", h.Doc)
			case !(h.Score >= 0 && h.Score <= 1):
				t.Fatalf("score %v", h.Score)
			case h.Connected != q.Connected(h.Doc):
				t.Fatalf("document %d: connected %v", h.Doc, h.Connected)
			case h.Exact && exactEnded:
				t.Fatalf("hit %d is exact, one before is not", i)
			case h.Exact && h.Score != 1:
				t.Fatalf("an exact hit at %v", h.Score)
			}
			seen[h.Doc] = true
			exactEnded = exactEnded || !h.Exact
		}
		if again := ix.Search(q); !slices.Equal(again, hits) {
			t.Fatal("another answer to the same query")
		}
		// The bias never moves a score.
		q.Connected, q.Limit = nil, len(docs)
		scores := map[int]float64{}
		for _, h := range ix.Search(q) {
			scores[h.Doc] = h.Score
		}
		for _, h := range hits {
			if scores[h.Doc] != h.Score {
				t.Fatalf("document %d: %v, unbiased %v", h.Doc, h.Score, scores[h.Doc])
			}
		}
	})
}
