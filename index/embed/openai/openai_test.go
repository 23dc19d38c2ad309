package openai_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
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
	"github.com/metamcp/metamcp/index/embed/openai"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, cfg openai.Config) *httpembed.Client {
	t.Helper()
	cfg.Limits.Backoff = time.Millisecond
	e, err := openai.New(cfg)
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

func TestBaseURLs(t *testing.T) {
	fake := cloudtest.New(t, cloudtest.Ollama)
	host := strings.TrimPrefix(fake.URL, "http://")
	for _, path := range []string{"", "/", "/v1", "/v1/", "/v1/embeddings", "//v1"} {
		e := open(t, openai.Config{BaseURL: fake.URL + path, Model: fake.Model})
		if path == "//v1" { // wrong, and must not be mended by luck
			if _, err := e.Embed(t.Context(), embed.Query, []string{"x"}); err == nil {
				t.Errorf("%q worked", path)
			}
			continue
		}
		if _, err := e.Embed(t.Context(), embed.Query, []string{"x"}); err != nil {
			t.Errorf("%q: %v", path, err)
		}
		if want := "openai/" + host + "/nomic-embed-text"; e.Model() != want {
			t.Errorf("%q: model %q, want %q", path, e.Model(), want)
		}
	}
	for _, bad := range []string{"localhost:11434", "ftp://x/", "http://", "://", "/v1"} {
		_, err := openai.New(openai.Config{BaseURL: bad, Model: "m"})
		embedtest.WantError(t, err, embed.Misconfigured)
	}
	_, err := openai.New(openai.Config{BaseURL: fake.URL})
	if e := embedtest.WantError(t, err, embed.Misconfigured); !strings.Contains(e.Hint, "search.embedderModel") {
		t.Error(e)
	}
	if e := open(t, openai.Config{}); e.Model() != "openai/api.openai.com/text-embedding-3-small" {
		t.Errorf("by default: %q", e.Model())
	}
	if e := open(t, openai.Config{BaseURL: "https://proxy.example/team/api/v1beta/openai", Model: "m"}); e.Model() != "openai/proxy.example/team/api/v1beta/openai/m" {
		t.Errorf("%q", e.Model())
	}
}

func TestFlavours(t *testing.T) {
	for _, flavour := range []cloudtest.Flavour{cloudtest.OpenAI, cloudtest.Ollama, cloudtest.VLLM} {
		t.Run(string(flavour), func(t *testing.T) {
			fake := cloudtest.New(t, flavour)
			e := open(t, openai.Config{BaseURL: fake.URL, Key: fake.Key, Model: fake.Model})
			vectors, err := e.Embed(t.Context(), embed.Document, []string{"a b c", "d"})
			if err != nil || len(vectors) != 2 || len(vectors[0]) != fake.Dimension {
				t.Fatalf("%v, %v", vectors, err)
			}
			r := fake.Requests()[0]
			if r.Encoding != "float" || (r.Authorization == "") != (fake.Key == "") {
				t.Errorf("%+v", r)
			}
			bad := open(t, openai.Config{BaseURL: fake.URL, Key: fake.Key, Model: "no-such-model"})
			_, err = bad.Embed(t.Context(), embed.Document, []string{"x"})
			if e := embedtest.WantError(t, err, embed.Misconfigured); !strings.Contains(e.Message, "no-such-model") || !strings.Contains(e.Hint, "search.embedderModel") {
				t.Errorf("%q, hint %q", e.Message, e.Hint)
			}
		})
	}
}

func TestWrongKey(t *testing.T) {
	fake := cloudtest.New(t, cloudtest.OpenAI)
	const key = "sk-wrong-abcdefgh"
	_, err := open(t, openai.Config{BaseURL: fake.URL, Key: key, KeyVariable: "MY_KEY", Model: fake.Model}).Embed(t.Context(), embed.Query, []string{"x"})
	e := embedtest.WantError(t, err, embed.Unauthorized)
	if strings.Contains(e.Error(), key) || strings.Contains(e.Error(), "abcd") || !strings.Contains(e.Hint, "MY_KEY") {
		t.Error(e)
	}
}

func TestQuota(t *testing.T) {
	fake := cloudtest.New(t, cloudtest.OpenAI)
	fake.Before = func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		fake.Fail(w, 429, "insufficient_quota", "You exceeded your current quota, please check your plan and billing details.", "insufficient_quota")
		return true
	}
	client := open(t, openai.Config{BaseURL: fake.URL, Key: fake.Key, Model: fake.Model})
	for range 2 {
		_, err := client.Embed(t.Context(), embed.Query, []string{"x"})
		if e := embedtest.WantError(t, err, embed.RateLimited); e.RetryAfter < time.Hour || !strings.Contains(e.Hint, "billing") {
			t.Errorf("%v after %v", e, e.RetryAfter)
		}
	}
	if n := fake.Received(); n != 2 {
		t.Errorf("%d requests: a quota does not come back within seconds", n)
	}
}

// TestSmallServer takes few texts and short ones, as local servers do.
func TestSmallServer(t *testing.T) {
	fake := cloudtest.New(t, cloudtest.VLLM)
	fake.MaxInputs, fake.MaxTokens = 5, 300
	e := open(t, openai.Config{BaseURL: fake.URL, Model: fake.Model})
	texts := make([]string, 40)
	for i := range texts {
		texts[i] = "short one"
	}
	texts[7] = strings.Repeat("long ", 4000)
	for round := range 3 {
		before := fake.Received()
		vectors, err := e.Embed(t.Context(), embed.Document, texts)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range vectors {
			if len(v) != fake.Dimension {
				t.Fatalf("text %d: %v", i, v)
			}
		}
		if n := fake.Received() - before; round == 2 && n > 16 {
			t.Errorf("%d requests for 40 texts: the limits were not remembered", n)
		}
	}
}

// TestHopeless has a server that finds everything too long; it must not be
// asked for ever.
func TestHopeless(t *testing.T) {
	fake := cloudtest.New(t, cloudtest.VLLM)
	fake.MaxInputs = -1
	fake.Before = func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		fake.Fail(w, 400, "BadRequestError", "This model's maximum context length is 0 tokens.", "")
		return true
	}
	texts := make([]string, 64)
	for i := range texts {
		texts[i] = strings.Repeat("x", 20_000)
	}
	_, err := open(t, openai.Config{BaseURL: fake.URL, Model: fake.Model}).Embed(t.Context(), embed.Document, texts)
	embedtest.WantError(t, err, embed.Misconfigured)
	if n := fake.Received(); n > 20 {
		t.Errorf("%d requests", n)
	}
}

func TestBase64(t *testing.T) {
	fake := cloudtest.New(t, cloudtest.OpenAI)
	fake.Before = func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		var packed []byte
		for _, f := range []float32{3, 4} {
			packed = binary.LittleEndian.AppendUint32(packed, math.Float32bits(f))
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": []any{map[string]any{"index": 0, "embedding": base64.StdEncoding.EncodeToString(packed)}}})
		return true
	}
	v, err := open(t, openai.Config{BaseURL: fake.URL, Key: fake.Key, Model: fake.Model}).Embed(t.Context(), embed.Query, []string{"x"})
	if err != nil || len(v[0]) != 2 || math.Abs(float64(v[0][0])-0.6) > 1e-6 {
		t.Errorf("%v, %v", v, err)
	}
}
