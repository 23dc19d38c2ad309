package builtin

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/metamcp/metamcp/index/embed"
)

const (
	benchQuery    = "Find out which pull requests of the repository are waiting for a review and who should look at them"
	benchDocument = "list pull requests: Lists the pull requests of a repository, newest first. Filter by state (open, closed or all), by base branch, by author or by label. Returns number, title, author, labels, and whether checks have passed; at most 100 at a time, with a cursor for the next page."
)

func benchKernels(b *testing.B, run func(*testing.B, *Embedder)) {
	for _, k := range kernels() {
		b.Run(k.name, func(b *testing.B) {
			e, err := newEmbedder(modelData, k)
			if err != nil {
				b.Fatal(err)
			}
			embedOne(b, e, embed.Query, "load the model")
			b.ReportAllocs()
			run(b, e)
		})
	}
}

func BenchmarkQuery(b *testing.B) {
	benchKernels(b, func(b *testing.B, e *Embedder) {
		for b.Loop() {
			embedOne(b, e, embed.Query, benchQuery)
		}
	})
}

func BenchmarkDocuments(b *testing.B) {
	benchKernels(b, func(b *testing.B, e *Embedder) {
		texts := make([]string, batch)
		for i := range texts {
			texts[i] = benchDocument
		}
		for b.Loop() {
			if _, err := e.Embed(b.Context(), embed.Document, texts); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "documents/s")
	})
}

func BenchmarkTokens(b *testing.B) {
	m := testModel(b, portableKernel())
	text := strings.Repeat(benchDocument+" ", 400)
	b.ReportAllocs()
	for b.Loop() {
		m.tokenizer.tokens(m.tokenizer.prepare(text))
	}
}

func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var m *model
	for b.Loop() {
		m = testModel(b, newKernel())
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(m)
	b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/1e6, "MB-kept")
}

// BenchmarkQueryBesideDocuments is a query while all threads for documents
// are at work.
func BenchmarkQueryBesideDocuments(b *testing.B) {
	e := newTestEmbedder(b)
	embedOne(b, e, embed.Query, "load the model")
	ctx, cancel := context.WithCancel(b.Context())
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel()
	background.Go(func() {
		texts := slices.Repeat([]string{benchDocument}, batch)
		for ctx.Err() == nil {
			if _, err := e.Embed(ctx, embed.Document, texts); err != nil && ctx.Err() == nil {
				b.Error(err)
				return
			}
		}
	})
	for b.Loop() {
		embedOne(b, e, embed.Query, benchQuery)
	}
}
