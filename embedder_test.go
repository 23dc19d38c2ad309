package metamcp_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/index/embed/httpembed/cloudtest"
	"github.com/metamcp/metamcp/integration/config"
)

func TestEmbeddersByConfiguration(t *testing.T) {
	for _, flavour := range []cloudtest.Flavour{cloudtest.OpenAI, cloudtest.Voyage} {
		t.Run(string(flavour), func(t *testing.T) {
			fake := cloudtest.New(t, flavour)
			var revoked atomic.Bool
			fake.Before = func(_ int, w http.ResponseWriter, _ *http.Request) bool {
				if !revoked.Load() {
					return false
				}
				fake.Fail(w, http.StatusUnauthorized, "invalid_request_error", "the key "+fake.Key+" was revoked", "invalid_api_key")
				return true
			}
			t.Setenv("VOYAGE_API_KEY", fake.Key)
			t.Setenv("OPENAI_API_KEY", fake.Key)
			e := open(t, map[string][]string{"one": nil}, map[string]any{
				"search": map[string]any{"embedder": string(flavour), "embedderUrl": fake.URL + "/v1", "embedderModel": fake.Model},
			})
			found, err := e.Search(t.Context(), "add two numbers", metamcp.SearchOptions{Settle: time.Minute})
			if err != nil || len(found.Matches) == 0 || found.Matches[0].Name != "add" || len(found.Notes) != 0 {
				t.Fatalf("found %+v, %v", found, err)
			}
			asked := 0
			for _, r := range fake.Requests() {
				asked += len(r.Input)
			}
			if asked < 10 {
				t.Errorf("the embedder was asked for %d texts", asked)
			}
			revoked.Store(true)
			found, err = e.Search(t.Context(), "subtract a number", metamcp.SearchOptions{})
			if err != nil || len(found.Notes) != 1 || !strings.Contains(found.Notes[0], "words alone") || strings.Contains(found.Notes[0], fake.Key) {
				t.Errorf("with a revoked key: %+v, %v", found, err)
			}
		})
	}
}

// An embedder that cannot be used is said in every answer, and costs no time.
func TestUnusableEmbeddersAreSaid(t *testing.T) {
	for name, search := range map[string]map[string]any{
		"no model":       {"embedder": "local"},
		"nobody listens": {"embedder": "openai", "embedderUrl": "http://127.0.0.1:1", "embedderModel": "m"},
		"no key":         {"embedder": "voyage"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("VOYAGE_API_KEY", "")
			t.Setenv("ANTHROPIC_API_KEY", "")
			e := open(t, map[string][]string{"one": nil}, map[string]any{"search": search})
			for range 2 {
				// It would wait for an hour.
				found, err := e.Search(t.Context(), "add two numbers", metamcp.SearchOptions{Settle: time.Hour})
				if err != nil || len(found.Matches) == 0 || len(found.Notes) != 1 || !strings.Contains(found.Notes[0], "words alone") {
					t.Errorf("found %+v, %v", found, err)
				}
			}
		})
	}
}

func TestReportSaysThatTheEmbedderIsNotUsable(t *testing.T) {
	dir := t.TempDir()
	file, err := writeConfig(dir, children(nil, map[string]any{"search": map[string]any{"embedder": "local", "embedderModel": "nobody-has-it"}}))
	if err != nil {
		t.Fatal(err)
	}
	r, err := metamcp.ReportStore(config.Sources{Files: []string{file}, Home: dir, Cwd: dir})
	if err != nil || r.Embedder != "" || r.EmbedderTrouble == "" {
		t.Errorf("%+v, %v", r, err)
	}
}
