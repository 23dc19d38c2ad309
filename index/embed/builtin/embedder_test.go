package builtin

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/metamcp/metamcp/index/embed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTestEmbedder(t testing.TB, options ...Option) *Embedder {
	t.Helper()
	e, err := New(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func embedOne(t testing.TB, e *Embedder, kind embed.Kind, text string) []float32 {
	t.Helper()
	v, err := e.Embed(t.Context(), kind, []string{text})
	if err != nil {
		t.Fatal(err)
	}
	if len(v) != 1 {
		t.Fatalf("%d vectors for one text", len(v))
	}
	return v[0]
}

func TestEmbedTakesAnyText(t *testing.T) {
	e := newTestEmbedder(t)
	for _, c := range []struct {
		name, text string
		seen       bool
	}{
		{"empty", "", false},
		{"white space", " \n\t ", false},
		{"NUL bytes", "\x00\x00\x00", false},
		{"invalid UTF-8", "\xff\xfe\xfd", false},
		{"Chinese", "搜索关键词并返回结果", false},
		{"emoji", "😀😀", false},
		{"invalid UTF-8 in a text", "take a \xff screenshot", true},
		{"Chinese and English", "搜索 web search 关键词", true},
		{"emoji and English", "send a 🎉 to the team", true},
		{"one letter", "a", true},
		{"a regular expression", "^(a+)+$", true},
		{"100 KB of words", strings.Repeat("word ", 20_000), true},
		{"100 KB without a space", strings.Repeat("x", 100_000), true},
		{"100 KB of Chinese", strings.Repeat("搜索", 17_000), false},
		{"ANSI escapes", "\x1b[31mdelete\x1b[0m a file", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, kind := range []embed.Kind{embed.Document, embed.Query} {
				v := embedOne(t, e, kind, c.text)
				if !c.seen {
					if v != nil {
						t.Errorf("%s: a vector of %d for what the model does not see", kind, len(v))
					}
					continue
				}
				if len(v) != Dim {
					t.Fatalf("%s: %d dimensions", kind, len(v))
				}
				var squares float64
				for _, x := range v {
					squares += float64(x) * float64(x)
				}
				// NaN fails this as well.
				if !(math.Abs(squares-1) < 1e-4) {
					t.Errorf("%s: the square of the length is %g", kind, squares)
				}
			}
		})
	}
}

func TestEmbedKeepsTheOrderAndDoesNotDependOnTheBatch(t *testing.T) {
	e := newTestEmbedder(t, Threads(2))
	texts := append(everyEighth(t), "", "搜索")
	batch, err := e.Embed(t.Context(), embed.Document, texts)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		if alone := embedOne(t, e, embed.Query, text); !slices.Equal(alone, batch[i]) {
			t.Errorf("%q has another vector alone than in a batch", text)
		}
	}
	none, err := e.Embed(t.Context(), embed.Document, nil)
	if err != nil || len(none) != 0 {
		t.Errorf("no texts: got %d vectors, error %v", len(none), err)
	}
}

func TestEmbedFindsWhatIsMeant(t *testing.T) {
	tools := []string{
		"take screenshot: Captures an image of the current page",
		"get forecast: Weather for the coming days in a place",
		"create issue: Opens a ticket in a project",
		"run query: Executes SQL against a database",
		"send mail: Sends a message to one or more recipients",
	}
	for _, k := range kernels() {
		t.Run(k.name, func(t *testing.T) {
			e, err := newEmbedder(modelData, k)
			if err != nil {
				t.Fatal(err)
			}
			documents, err := e.Embed(t.Context(), embed.Document, tools)
			if err != nil {
				t.Fatal(err)
			}
			for want, query := range []string{
				"what does the site look like? save a picture of it",
				"will it rain tomorrow in Oslo",
				"report a bug to the maintainers",
				"count the rows in the users table of postgres",
				"tell my colleague by email that I am late",
			} {
				q, best := embedOne(t, e, embed.Query, query), 0
				for i := range documents {
					if dotGo(q, documents[i]) > dotGo(q, documents[best]) {
						best = i
					}
				}
				if best != want {
					t.Errorf("%q finds %q", query, tools[best])
				}
			}
		})
	}
}

func TestEmbedByManyAtOnce(t *testing.T) {
	e := newTestEmbedder(t)
	texts := everyEighth(t)[:8]
	want, err := newTestEmbedder(t).Embed(t.Context(), embed.Document, texts)
	if err != nil {
		t.Fatal(err)
	}
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			got, err := e.Embed(t.Context(), embed.Kind(i%2), texts)
			if err != nil {
				t.Error(err)
				return
			}
			for j := range got {
				if !slices.Equal(got[j], want[j]) {
					t.Errorf("caller %d: the vector of %q is another", i, texts[j])
				}
			}
		})
	}
	callers.Wait()
}

func TestQueriesDoNotWaitForDocuments(t *testing.T) {
	e := newTestEmbedder(t, Threads(2))
	// All that documents may use is taken, and stays so.
	for range cap(e.documents) {
		e.documents <- struct{}{}
	}
	if v := embedOne(t, e, embed.Query, "find a tool"); v == nil {
		t.Error("no vector")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := e.Embed(ctx, embed.Document, []string{"a", "b", "c"})
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a waiting batch that is cancelled: got %v", err)
	}
}

func TestEmbedEndsWithItsContext(t *testing.T) {
	e := newTestEmbedder(t, Threads(1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Embed(ctx, embed.Query, []string{"text"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}

	// The kernel cancels in the middle of the first text.
	k, calls := portableKernel(), 0
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	tile := k.tile
	k.tile = func(a []float32, lda int, b []int8, depth int, c []float32, ldc int, scale, bias []float32, floor float32) {
		calls++
		cancel()
		tile(a, lda, b, depth, c, ldc, scale, bias, floor)
	}
	e, err := newEmbedder(modelData, k, Threads(1))
	if err != nil {
		t.Fatal(err)
	}
	texts := slices.Repeat([]string{strings.Repeat("a long text ", 100)}, 64)
	if _, err := e.Embed(ctx, embed.Document, texts); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if limit := maxTokens / tileRows; calls > limit {
		t.Errorf("%d tiles were multiplied after the end, more than the %d of one panel", calls, limit)
	}
}

func TestUnusableModelIsAnError(t *testing.T) {
	e, err := newEmbedder("nothing", portableKernel())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err = e.Embed(t.Context(), embed.Query, []string{"text"})
		var failure *embed.Error
		if !errors.As(err, &failure) || failure.Reason != embed.Misconfigured || failure.Hint == "" {
			t.Errorf("got %#v", err)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, n := range []int{0, -1} {
		var failure *embed.Error
		if _, err := New(Threads(n)); !errors.As(err, &failure) || failure.Reason != embed.Misconfigured {
			t.Errorf("%d threads: got %v", n, err)
		}
	}
	e := newTestEmbedder(t, Threads(3))
	if cap(e.documents) != 3 || cap(e.queries) != 3 {
		t.Errorf("3 threads became %d and %d", cap(e.documents), cap(e.queries))
	}
	if e.Batch() < 1 || e.Model() != modelName {
		t.Errorf("batch %d, model %q", e.Batch(), e.Model())
	}
}
