package voyage_test

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/metamcp/metamcp/index/embed"
	"github.com/metamcp/metamcp/index/embed/httpembed"
	"github.com/metamcp/metamcp/index/embed/httpembed/cloudtest"
	"github.com/metamcp/metamcp/index/embed/internal/embedtest"
	"github.com/metamcp/metamcp/index/embed/voyage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, cfg voyage.Config) *httpembed.Client {
	t.Helper()
	cfg.Limits.Backoff = time.Millisecond
	e, err := voyage.New(cfg)
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

func TestEmbed(t *testing.T) {
	fake := cloudtest.New(t, cloudtest.Voyage)
	e := open(t, voyage.Config{Key: fake.Key + "\n", BaseURL: fake.URL + "/v1/"})
	if e.Model() != "voyage/voyage-3-lite" || e.Batch() < 2 {
		t.Errorf("model %q, batch %d", e.Model(), e.Batch())
	}
	texts := []string{"take a screenshot", " ", "list issues", "", "take a screenshot"}
	vectors, err := e.Embed(t.Context(), embed.Document, texts)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range vectors {
		if strings.TrimSpace(texts[i]) == "" {
			if v != nil {
				t.Errorf("%q: %v", texts[i], v)
			}
			continue
		}
		want := cloudtest.Vector(texts[i], fake.Dimension)
		length := 0.0
		for _, f := range want {
			length += float64(f) * float64(f)
		}
		for k, f := range v {
			if math.Abs(float64(f)-float64(want[k])/math.Sqrt(length)) > 1e-6 {
				t.Errorf("%q: %v, want the direction of %v", texts[i], v, want)
				break
			}
		}
	}
	if _, err := e.Embed(t.Context(), embed.Query, []string{"q"}); err != nil {
		t.Fatal(err)
	}
	requests := fake.Requests()
	if len(requests) != 2 || requests[0].InputType != "document" || requests[1].InputType != "query" ||
		requests[0].Truncation == nil || !*requests[0].Truncation || len(requests[0].Input) != 3 {
		t.Errorf("requests: %+v", requests)
	}
}

// TestBatches bounds requests by their number of texts and of tokens.
func TestBatches(t *testing.T) {
	fake := cloudtest.New(t, cloudtest.Voyage)
	e := open(t, voyage.Config{Key: fake.Key, BaseURL: fake.URL + "/v1"})
	many := make([]string, 300)
	for i := range many {
		many[i] = "x"
	}
	long := make([]string, 10)
	for i := range long {
		long[i] = strings.Repeat("word ", 10_000) // 50,000 bytes
	}
	for _, texts := range [][]string{many, long} {
		vectors, err := e.Embed(t.Context(), embed.Document, texts)
		if err != nil || len(vectors) != len(texts) {
			t.Fatalf("%d vectors, %v", len(vectors), err)
		}
	}
	for _, r := range fake.Requests() {
		size := 0
		for _, text := range r.Input {
			size += len(text)
		}
		if len(r.Input) > 128 || size > 4*120_000 {
			t.Errorf("a request of %d texts, %d bytes", len(r.Input), size)
		}
	}
	if n := len(fake.Requests()); n < 5 || n > 8 {
		t.Errorf("%d requests", n)
	}
}

func TestErrors(t *testing.T) {
	const key = "pa-wrong-9876543210"
	tests := []struct {
		name            string
		key, variable   string
		model, base     string
		before          func(*cloudtest.Server, http.ResponseWriter)
		want            embed.Reason
		says, hint      string
		retryAfter      time.Duration
		wantsOneAttempt bool
	}{
		{name: "wrong key", key: key, want: embed.Unauthorized, says: "refused the key", hint: "VOYAGE_API_KEY", wantsOneAttempt: true},
		{name: "a key of another company", key: key, variable: voyage.FallbackKeyVariable, want: embed.Unauthorized, hint: "came from ANTHROPIC_API_KEY; set VOYAGE_API_KEY", wantsOneAttempt: true},
		{name: "unknown model", model: "voyage-9", want: embed.Misconfigured, says: "Model voyage-9 is not supported", hint: "search.embedderModel", wantsOneAttempt: true},
		{name: "wrong path", base: "/api", want: embed.Misconfigured, says: "404", hint: voyage.DefaultBaseURL, wantsOneAttempt: true},
		{name: "rate limit for long", before: func(s *cloudtest.Server, w http.ResponseWriter) {
			w.Header().Set("Retry-After", "900")
			s.Fail(w, 429, "", "You have not yet added your payment method in the billing page and will have reduced rate limits of 3 RPM and 10K TPM.", "")
		}, want: embed.RateLimited, says: "3 RPM", retryAfter: 900 * time.Second, wantsOneAttempt: true},
		{name: "outage", before: func(_ *cloudtest.Server, w http.ResponseWriter) {
			http.Error(w, "<html><head><title>502 Bad\nGateway</title></head><body>nginx</body></html>", http.StatusBadGateway)
		}, want: embed.Unavailable, says: "(502 Bad Gateway): 502 Bad Gateway"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fake := cloudtest.New(t, cloudtest.Voyage)
			if tt.before != nil {
				fake.Before = func(_ int, w http.ResponseWriter, _ *http.Request) bool { tt.before(fake, w); return true }
			}
			cfg := voyage.Config{Key: fake.Key, KeyVariable: tt.variable, Model: tt.model, BaseURL: fake.URL + "/v1"}
			if tt.key != "" {
				cfg.Key = tt.key
			}
			if tt.base != "" {
				cfg.BaseURL = fake.URL + tt.base
			}
			_, err := open(t, cfg).Embed(t.Context(), embed.Document, []string{"x"})
			e := embedtest.WantError(t, err, tt.want)
			if !strings.Contains(e.Message, tt.says) || !strings.Contains(e.Hint, tt.hint) {
				t.Errorf("%q, hint %q", e.Message, e.Hint)
			}
			if strings.Contains(e.Error(), cfg.Key) {
				t.Errorf("the key is in %q", e)
			}
			if e.RetryAfter < tt.retryAfter {
				t.Errorf("to be tried again after %v", e.RetryAfter)
			}
			if n := fake.Received(); (n == 1) != tt.wantsOneAttempt {
				t.Errorf("%d attempts", n)
			}
		})
	}
}

func TestNoKey(t *testing.T) {
	_, err := voyage.New(voyage.Config{Key: " "})
	if e := embedtest.WantError(t, err, embed.Unauthorized); !strings.Contains(e.Hint, "VOYAGE_API_KEY") {
		t.Error(e)
	}
	_, err = voyage.New(voyage.Config{Key: "secret\nInjected: header"})
	if e := embedtest.WantError(t, err, embed.Unauthorized); strings.Contains(e.Error(), "secret") {
		t.Error(e)
	}
}

func TestFindKey(t *testing.T) {
	tests := []struct {
		name       string
		env        map[string]string
		explicitly bool
		key, from  string
	}{
		{"none", nil, true, "", ""},
		{"its own", map[string]string{"VOYAGE_API_KEY": " pa-1\n", "ANTHROPIC_API_KEY": "pa-2"}, false, "pa-1", "VOYAGE_API_KEY"},
		{"in the other", map[string]string{"ANTHROPIC_API_KEY": "pa-2"}, false, "pa-2", "ANTHROPIC_API_KEY"},
		{"Anthropic's own", map[string]string{"ANTHROPIC_API_KEY": "sk-ant-3"}, false, "", ""},
		{"Anthropic's own, but asked for", map[string]string{"ANTHROPIC_API_KEY": "sk-ant-3"}, true, "sk-ant-3", "ANTHROPIC_API_KEY"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			key, from := voyage.FindKey(func(name string) string { return tt.env[name] }, tt.explicitly)
			if key != tt.key || from != tt.from {
				t.Errorf("%q from %q", key, from)
			}
		})
	}
}
