package rank

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/metamcp/metamcp/index/vector"
)

func BenchmarkAnalyze(b *testing.B) {
	docs := crowd(2000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		Analyze(docs[i%len(docs)])
	}
}

func BenchmarkParams(b *testing.B) {
	schema := []byte(`{"type":"object","properties":{"owner":{"type":"string","description":"Repository owner"},"repo":{"type":"string","description":"Repository name"},` +
		`"state":{"type":"string","enum":["open","closed","all"],"description":"Which ones"},"labels":{"type":"array","items":{"type":"string"}}},"required":["owner","repo"]}`)
	b.ReportAllocs()
	for b.Loop() {
		Params(schema)
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, n := range []int{1000, 10_000, 50_000} {
		docs := crowd(n)
		terms := make([]*Terms, n)
		for i, d := range docs {
			terms[i] = Analyze(d)
		}
		b.Run(fmt.Sprintf("tools=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Build(terms)
			}
		})
	}
}

func BenchmarkSearch(b *testing.B) {
	const dim = 640
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1000, 10_000, 50_000} {
		ix, set, queries := build(crowd(n)), (*vector.Set)(nil), crowdQueries(500)
		vectors := make([][][]float32, len(queries))
		for i, q := range queries {
			for range Texts(q) {
				vectors[i] = append(vectors[i], unit(r, dim))
			}
		}
		run := func(b *testing.B) {
			b.ReportAllocs()
			took := make([]time.Duration, 0, 1<<20)
			for i := 0; b.Loop(); i++ {
				start := time.Now()
				ix.Search(Query{Text: queries[i%len(queries)], Vectors: vectors[i%len(queries)], Docs: set})
				if len(took) < cap(took) {
					took = append(took, time.Since(start))
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
		}
		b.Run(fmt.Sprintf("keyword/tools=%d", n), run)
		set = crowdVectors(n, dim)
		b.Run(fmt.Sprintf("hybrid/tools=%d", n), run)
	}
}
