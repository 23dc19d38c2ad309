package local_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/metamcp/metamcp/index/embed"
	"github.com/metamcp/metamcp/index/embed/internal/embedtest"
	"github.com/metamcp/metamcp/index/embed/local"
)

// withFake returns a configuration whose worker is this program in the role.
func withFake(t *testing.T, role string) local.Config {
	t.Helper()
	dir := t.TempDir()
	model := filepath.Join(dir, "fake.gguf")
	if err := os.WriteFile(model, fakeGGUF(), 0o600); err != nil {
		t.Fatal(err)
	}
	return local.Config{
		Worker: os.Args[0], Model: model, Log: testLog(t),
		Environ: append(os.Environ(), "LLAMA_TEST_ROLE="+role, "LLAMA_TEST_MARKER="+filepath.Join(dir, "marker")),
		Backoff: 5 * time.Millisecond, MaxBackoff: 20 * time.Millisecond,
	}
}

func one(t *testing.T, e *local.Embedder, text string) error {
	t.Helper()
	_, err := e.Embed(t.Context(), embed.Document, []string{text})
	return err
}

func TestEmbed(t *testing.T) {
	cfg := withFake(t, "well-behaved")
	cfg.ID, cfg.QueryPrefix = "fake@1234", "query: "
	e := open(t, cfg)
	if e.Model() != "local/fake@1234" || e.Batch() < 1 {
		t.Errorf("model %q, batch %d", e.Model(), e.Batch())
	}
	if e.Running() {
		t.Error("it started before there was anything to do")
	}
	texts := make([]string, 0, 101)
	for i := range 100 {
		texts = append(texts, strings.Repeat("x", i+1))
	}
	texts = append(texts, " \n")
	vectors, err := e.Embed(t.Context(), embed.Document, texts)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range vectors[:100] {
		if want := float64(i+1) / 'x'; len(v) != 2 || math.Abs(float64(v[0]/v[1])-want) > 1e-3 {
			t.Fatalf("text %d: %v, want the ratio %v", i, v, want)
		}
	}
	if vectors[100] != nil {
		t.Errorf("a blank text: %v", vectors[100])
	}
	query, err := e.Embed(t.Context(), embed.Query, []string{"x"})
	if err != nil || query[0][0] != 1 {
		t.Errorf("the prefix of queries is missing: %v, %v", query, err)
	}
	if none, err := e.Embed(t.Context(), embed.Query, nil); err != nil || len(none) != 0 {
		t.Errorf("no texts: %v, %v", none, err)
	}
}

func TestErrors(t *testing.T) {
	tests := []struct {
		name, role, text string
		change           func(*local.Config)
		want             embed.Reason
		says, hint       string
	}{
		{"no model", "", "x", func(c *local.Config) { c.Model += ".not" }, embed.Misconfigured, "no model file", "metamcp model install"},
		{"no worker", "", "x", func(c *local.Config) { c.Worker += ".not" }, embed.Misconfigured, "there is no worker", "go build ./cmd/metamcp-embed"},
		{"worker is a folder", "", "x", func(c *local.Config) { c.Worker = filepath.Dir(c.Model) }, embed.Misconfigured, "cannot be started", ""},
		{"no library", "panic", "x", nil, embed.Misconfigured, "llama.cpp that local models need: it was not found", "kelindar/search"},
		{"another version", "hello of tomorrow", "x", nil, embed.Misconfigured, "version 99", "one version"},
		{"no protocol", "chatter", "x", nil, embed.Unavailable, "broke the protocol", ""},
		{"wrong order", "wrong order", "x", nil, embed.Unavailable, "", ""}, // one text: the index fits, but Done never comes
		{"crash", "crash always", "x", nil, embed.Unavailable, "the fake[31m crashed", ""},
		{"hang", "", "hang", nil, embed.Unavailable, "silent for", ""},
		{"deaf", "deaf", "x", nil, embed.Unavailable, "silent for", ""},
		{"never loaded", "load for ever", "x", func(c *local.Config) { c.StartTimeout = 400 * time.Millisecond }, embed.Unavailable, "not loaded", ""},
		{"refused text", "", "refuse", nil, embed.Misconfigured, "not SEP", "BERT"},
		{"infinite", "", "infinite", nil, embed.BadAnswer, "Inf", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := withFake(t, "role: "+tt.role)
			if tt.role != "" {
				cfg = withFake(t, tt.role)
			}
			cfg.Patience = 400 * time.Millisecond
			if tt.change != nil {
				tt.change(&cfg)
			}
			failure := embedtest.WantError(t, one(t, open(t, cfg), tt.text), tt.want)
			if !strings.Contains(failure.Message, tt.says) || !strings.Contains(failure.Hint, tt.hint) {
				t.Errorf("%q, hint %q", failure.Message, failure.Hint)
			}
		})
	}
}

func TestVectorsOutOfOrder(t *testing.T) {
	e := open(t, withFake(t, "wrong order"))
	_, err := e.Embed(t.Context(), embed.Document, []string{"a", "b"})
	if failure := embedtest.WantError(t, err, embed.Unavailable); !strings.Contains(failure.Message, "text 1 came where that of 0") {
		t.Error(failure)
	}
}

// TestInstalledLater finds a model that came after the host began.
func TestInstalledLater(t *testing.T) {
	cfg := withFake(t, "well-behaved")
	if err := os.Rename(cfg.Model, cfg.Model+".later"); err != nil {
		t.Fatal(err)
	}
	e := open(t, cfg)
	embedtest.WantError(t, one(t, e, "x"), embed.Misconfigured)
	if err := os.Rename(cfg.Model+".later", cfg.Model); err != nil {
		t.Fatal(err)
	}
	if err := one(t, e, "x"); err != nil {
		t.Error(err)
	}
}

func TestOneCrashIsNotSeen(t *testing.T) {
	e := open(t, withFake(t, "well-behaved"))
	if err := one(t, e, "crash once"); err != nil {
		t.Error(err)
	}
}

func TestCrashesAreBounded(t *testing.T) {
	cfg := withFake(t, "crash always")
	cfg.Backoff, cfg.MaxBackoff = time.Hour, 2*time.Hour
	e := open(t, cfg)
	embedtest.WantError(t, one(t, e, "x"), embed.Unavailable) // that were two
	for range 3 {
		failure := embedtest.WantError(t, one(t, e, "x"), embed.Unavailable)
		if failure.RetryAfter <= 59*time.Minute || failure.RetryAfter > time.Hour {
			t.Errorf("to be tried again after %v", failure.RetryAfter)
		}
		if e.Running() {
			t.Error("it was started within its backoff")
		}
	}
}

func TestDimensionStays(t *testing.T) {
	e := open(t, withFake(t, "well-behaved"))
	if err := one(t, e, "x"); err != nil {
		t.Fatal(err)
	}
	embedtest.WantError(t, one(t, e, "wider"), embed.BadAnswer)
	_, err := e.Embed(t.Context(), embed.Document, []string{"x", "wider"})
	embedtest.WantError(t, err, embed.BadAnswer)
}

func TestIdle(t *testing.T) {
	cfg := withFake(t, "well-behaved")
	cfg.Idle = 20 * time.Millisecond
	e := open(t, cfg)
	for range 3 {
		if err := one(t, e, "x"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it was unloaded", func() bool { return !e.Running() })
	}
}

// TestQueriesGoFirst asks while a long request runs.
func TestQueriesGoFirst(t *testing.T) {
	e := open(t, withFake(t, "well-behaved"))
	if err := one(t, e, "x"); err != nil {
		t.Fatal(err)
	}
	slow := make([]string, e.Batch())
	for i := range slow {
		slow[i] = "slow"
	}
	done := make(chan error, 1)
	go func() {
		_, err := e.Embed(t.Context(), embed.Document, slow)
		done <- err
	}()
	queries := 0
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			if queries < 3 {
				t.Errorf("%d queries were answered meanwhile", queries)
			}
			return
		default:
		}
		if _, err := e.Embed(t.Context(), embed.Query, []string{"q"}); err != nil {
			t.Fatal(err)
		}
		queries++
	}
}

func TestContext(t *testing.T) {
	e := open(t, withFake(t, "well-behaved"))
	if err := one(t, e, "x"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := e.Embed(ctx, embed.Document, []string{"x", "hang"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	// Others get no answer from what hangs, but their contexts count as well.
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if _, err := e.Embed(ctx, embed.Query, []string{"x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestCancelFreesTheWorker leaves a long request and needs the next one soon.
func TestCancelFreesTheWorker(t *testing.T) {
	cfg := withFake(t, "well-behaved")
	e := open(t, cfg)
	if err := one(t, e, "x"); err != nil {
		t.Fatal(err)
	}
	for range 20 { // 20 × 1.6 s, were they all done
		slow := make([]string, e.Batch())
		for i := range slow {
			slow[i] = "slow"
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err := e.Embed(ctx, embed.Document, slow)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	if _, err := e.Embed(ctx, embed.Document, []string{"x"}); err != nil {
		t.Error(err)
	}
}

// TestClose ends calls that wait for a worker that hangs.
func TestClose(t *testing.T) {
	e := local.New(withFake(t, "well-behaved"))
	if err := one(t, e, "x"); err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	begun := make(chan struct{}, 4)
	for range 4 {
		calls.Go(func() {
			begun <- struct{}{}
			_, err := e.Embed(context.Background(), embed.Query, []string{"hang"})
			embedtest.WantError(t, err, embed.Unavailable)
		})
	}
	for range 4 {
		<-begun
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	calls.Wait()
	if e.Running() {
		t.Error("it runs still")
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	embedtest.WantError(t, one(t, e, "x"), embed.Unavailable)
}
