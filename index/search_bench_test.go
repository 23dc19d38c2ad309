package index

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/metamcp/metamcp/index/embed/builtin"
)

// BenchmarkSearch is a search as mcp_discover does it, at 10,000 tools: words
// alone, with a new query, and with one that was seen before. p99 is reported
// beside the mean.
func BenchmarkSearch(b *testing.B) {
	c := generated(b, 1000)
	e, err := builtin.New()
	if err != nil {
		b.Fatal(err)
	}
	byMeaning, err := Offline(b.Context(), c, e, nil)
	if err != nil {
		b.Fatal(err)
	}
	byWords, err := Offline(b.Context(), c, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	query := func(i int) string {
		return fmt.Sprintf("%s the %s that was changed %d days ago", verbs[i%10], nouns[i/10%10], i)
	}
	for _, bb := range []struct {
		name string
		s    *Searcher
		text func(i int) string
	}{
		{"words", byWords, query},
		{"new", byMeaning, query},
		{"seen", byMeaning, func(i int) string { return query(i % 100) }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			for i := range 100 {
				bb.s.Search(b.Context(), Hybrid{}, Query{Text: query(i)})
			}
			var times []time.Duration
			next := 1000
			for b.Loop() {
				next++
				start := time.Now()
				matches, note, _ := bb.s.Search(b.Context(), Hybrid{}, Query{Text: bb.text(next)})
				times = append(times, time.Since(start))
				if len(matches) == 0 || note != "" {
					b.Fatalf("%d matches, note %q", len(matches), note)
				}
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
		})
	}
}
