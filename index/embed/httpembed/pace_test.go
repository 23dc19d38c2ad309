package httpembed_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/index/embed"
	"github.com/metamcp/metamcp/index/embed/httpembed"
	"github.com/metamcp/metamcp/index/embed/httpembed/cloudtest"
)

func TestTriedAgain(t *testing.T) {
	tests := []struct {
		name    string
		failure func(s *cloudtest.Server, w http.ResponseWriter)
	}{
		{"429 with a time", func(s *cloudtest.Server, w http.ResponseWriter) {
			w.Header().Set("Retry-After-Ms", "20")
			s.Fail(w, 429, "", "Rate limit reached", "")
		}},
		{"429 with a date in the past", func(s *cloudtest.Server, w http.ResponseWriter) {
			w.Header().Set("Retry-After", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
			s.Fail(w, 429, "", "Rate limit reached", "")
		}},
		{"429 with resets", func(s *cloudtest.Server, w http.ResponseWriter) {
			w.Header().Set("X-Ratelimit-Remaining-Requests", "0")
			w.Header().Set("X-Ratelimit-Reset-Requests", "15ms")
			w.Header().Set("X-Ratelimit-Remaining-Tokens", "9")
			w.Header().Set("X-Ratelimit-Reset-Tokens", "6m0s")
			s.Fail(w, 429, "", "Rate limit reached", "")
		}},
		{"500", func(s *cloudtest.Server, w http.ResponseWriter) { s.Fail(w, 500, "", "oops", "") }},
		{"503 without a body", func(_ *cloudtest.Server, w http.ResponseWriter) { w.WriteHeader(503) }},
		{"529", func(_ *cloudtest.Server, w http.ResponseWriter) { w.WriteHeader(529) }},
		{"reset", func(_ *cloudtest.Server, w http.ResponseWriter) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.(*net.TCPConn).SetLinger(0)
				_ = conn.Close()
			}
		}},
		{"cut off", func(_ *cloudtest.Server, w http.ResponseWriter) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"data":`)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fake := cloudtest.New(t, cloudtest.Voyage)
			fake.Key = key
			fake.Before = func(n int, w http.ResponseWriter, _ *http.Request) bool {
				if n > 2 {
					return false
				}
				tt.failure(fake, w)
				return true
			}
			c := open(t, fake.URL+"/v1/embeddings", httpembed.Limits{})
			if _, err := c.Embed(t.Context(), embed.Document, []string{"a"}); err != nil {
				t.Fatal(err)
			}
			if n := fake.Received(); n != 3 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func TestAttemptsAreBounded(t *testing.T) {
	fake := cloudtest.New(t, cloudtest.Voyage)
	fake.Before = func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		fake.Fail(w, 500, "", "oops", "")
		return true
	}
	c := open(t, fake.URL+"/v1/embeddings", httpembed.Limits{Attempts: 4})
	_, err := c.Embed(t.Context(), embed.Document, []string{"a"})
	if e := wantError(t, err, embed.Unavailable); !strings.Contains(e.Message, "oops") || e.RetryAfter == 0 {
		t.Errorf("%q after %v", e.Message, e.RetryAfter)
	}
	if n := fake.Received(); n != 4 {
		t.Errorf("%d attempts for documents", n)
	}
	_, err = c.Embed(t.Context(), embed.Query, []string{"a"})
	wantError(t, err, embed.Unavailable)
	if n := fake.Received() - 4; n != 2 {
		t.Errorf("%d attempts for a query", n)
	}
}

// hang blocks a handler until its client is gone or the test ends.
func hang(t *testing.T) http.HandlerFunc {
	t.Helper()
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	return func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done():
		case <-over:
		}
	}
}

func TestHangingServer(t *testing.T) {
	c := open(t, serve(t, hang(t)).URL, httpembed.Limits{Request: 50 * time.Millisecond, Attempts: 2})
	_, err := c.Embed(t.Context(), embed.Document, []string{"a"})
	if e := wantError(t, err, embed.Unavailable); !strings.Contains(e.Message, "50ms") {
		t.Error(e)
	}
	c = open(t, serve(t, hang(t)).URL, httpembed.Limits{Query: 50 * time.Millisecond})
	_, err = c.Embed(t.Context(), embed.Query, []string{"a"})
	wantError(t, err, embed.Unavailable)

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	c = open(t, serve(t, hang(t)).URL, httpembed.Limits{})
	if _, err := c.Embed(ctx, embed.Document, []string{"a"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestTrickle(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		out := http.NewResponseController(w)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			if _, err := io.WriteString(w, " "); err != nil || out.Flush() != nil {
				return
			}
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	})
	c := open(t, s.URL, httpembed.Limits{Request: 100 * time.Millisecond, Attempts: 1})
	_, err := c.Embed(t.Context(), embed.Document, []string{"a"})
	if e := wantError(t, err, embed.Unavailable); !strings.Contains(e.Message, "100ms") {
		t.Error(e)
	}
}

// TestSlowServer manages eight texts in the time that it has, until it wakes up.
func TestSlowServer(t *testing.T) {
	manages := atomic.Int32{}
	manages.Store(8)
	block := hang(t)
	var largest atomic.Int32
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Input []string }
		if json.NewDecoder(r.Body).Decode(&asked) != nil {
			return
		}
		if n := int32(len(asked.Input)); n > manages.Load() {
			block(w, r)
			return
		} else if n > largest.Load() {
			largest.Store(n)
		}
		items := make([]string, 0, len(asked.Input))
		for i := range asked.Input {
			items = append(items, item(i, "[1,0]"))
		}
		_, _ = io.WriteString(w, answer(items...))
	})
	c := open(t, s.URL, httpembed.Limits{Request: 300 * time.Millisecond})
	texts := make([]string, 32)
	for i := range texts {
		texts[i] = fmt.Sprint("text ", i)
	}
	if v, err := c.Embed(t.Context(), embed.Document, texts); err != nil || len(v) != 32 {
		t.Fatalf("%d vectors, %v", len(v), err)
	}
	manages.Store(1000)
	deadline := time.Now().Add(20 * time.Second)
	for largest.Load() < 32 && time.Now().Before(deadline) {
		if _, err := c.Embed(t.Context(), embed.Document, texts); err != nil {
			t.Fatal(err)
		}
	}
	if n := largest.Load(); n != 32 {
		t.Errorf("requests stay at %d texts", n)
	}
}

// TestTokensAMinute has a service that never takes more than a few texts at
// once, and does not say when to come again.
func TestTokensAMinute(t *testing.T) {
	fake := cloudtest.New(t, cloudtest.Voyage)
	fake.Key = key
	fake.Before = func(_ int, w http.ResponseWriter, r *http.Request) bool {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return true
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Count(body, []byte("text")) <= 5 {
			return false
		}
		fake.Fail(w, 429, "", "reduced rate limits of 3 RPM and 10K TPM", "")
		return true
	}
	c := open(t, fake.URL+"/v1/embeddings", httpembed.Limits{})
	texts := make([]string, 32)
	for i := range texts {
		texts[i] = fmt.Sprint("text ", i)
	}
	if v, err := c.Embed(t.Context(), embed.Document, texts); err != nil || len(v) != 32 {
		t.Fatalf("%d vectors, %v", len(v), err)
	}
	if n := fake.Received(); n > 40 {
		t.Errorf("%d requests", n)
	}
}

// TestLongRateLimit waits longer for a rate limit than for failures.
func TestLongRateLimit(t *testing.T) {
	fake := cloudtest.New(t, cloudtest.Voyage)
	fake.Key = key
	fake.Before = func(n int, w http.ResponseWriter, _ *http.Request) bool {
		if n > 9 {
			return false
		}
		fake.Fail(w, 429, "", "3 RPM", "")
		return true
	}
	c := open(t, fake.URL+"/v1/embeddings", httpembed.Limits{})
	if _, err := c.Embed(t.Context(), embed.Document, []string{"a"}); err != nil {
		t.Error(err)
	}
}

// TestQueriesPassDocuments fills the lane of documents and has it paused.
func TestQueriesPassDocuments(t *testing.T) {
	inside := make(chan struct{}, 16)
	release := make(chan struct{})
	fake := cloudtest.New(t, cloudtest.Voyage)
	fake.Key = key
	slow := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"document"`) {
			inside <- struct{}{}
			select {
			case <-release:
				w.Header().Set("Retry-After", "600")
				fake.Fail(w, 429, "", "Rate limit reached", "")
			case <-r.Context().Done():
			}
			return
		}
		_, _ = io.WriteString(w, answer(item(0, "[1,0]")))
	})
	c := open(t, slow.URL, httpembed.Limits{})
	var calls sync.WaitGroup
	for range 5 {
		calls.Go(func() {
			_, err := c.Embed(t.Context(), embed.Document, []string{"d"})
			if e := wantError(t, err, embed.RateLimited); e.RetryAfter < 590*time.Second {
				t.Errorf("to be tried again after %v", e.RetryAfter)
			}
		})
	}
	<-inside
	<-inside // both places of documents are taken, three calls wait
	query := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := c.Embed(ctx, embed.Query, []string{"q"}); err != nil {
			t.Errorf("a query: %v", err)
		}
	}
	query()
	close(release)
	calls.Wait()
	if n := len(inside); n > 3 {
		t.Errorf("%d more documents were sent", n)
	}
	query() // documents are held back for ten minutes, queries are not
	_, err := c.Embed(t.Context(), embed.Document, []string{"d"})
	wantError(t, err, embed.RateLimited)
	if n := len(inside); n > 3 {
		t.Error("a document was sent while the service had asked for quiet")
	}
}

func TestAtMostTwoInFlight(t *testing.T) {
	var now, most atomic.Int32
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		n := now.Add(1)
		for {
			m := most.Load()
			if n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		<-time.After(2 * time.Millisecond) // so that others may come
		now.Add(-1)
		_, _ = io.WriteString(w, answer(item(0, "[1,0]")))
	})
	c := open(t, s.URL, httpembed.Limits{})
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			if _, err := c.Embed(t.Context(), embed.Document, []string{"d"}); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if most.Load() > 2 {
		t.Errorf("%d requests at once", most.Load())
	}
}

func TestContextEndsAnything(t *testing.T) {
	busy := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	c := open(t, busy.URL, httpembed.Limits{Backoff: time.Hour, MaxBackoff: time.Hour, Documents: 24 * time.Hour})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	// The wait is longer than ctx, so it is not begun: the reason is told.
	_, err := c.Embed(ctx, embed.Document, []string{"a"})
	wantError(t, err, embed.Unavailable)

	ctx, cancel = context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := c.Embed(ctx, embed.Document, []string{"a"})
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestClose(t *testing.T) {
	inside := make(chan struct{}, 8)
	block := hang(t)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		inside <- struct{}{}
		block(w, r)
	})
	c := open(t, s.URL, httpembed.Limits{})
	ended := make(chan error, 8)
	for i := range 8 {
		go func() {
			_, err := c.Embed(context.Background(), embed.Kind(i%2), []string{"a"})
			ended <- err
		}()
	}
	for range 4 {
		<-inside
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for range 8 {
		wantError(t, <-ended, embed.Unavailable)
	}
	_, err := c.Embed(t.Context(), embed.Query, []string{"a"})
	wantError(t, err, embed.Unavailable)
}
