package metamcp_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp"
)

// fakeEmbeddings is a fake of a cloud's embeddings API: it speaks the protocol
// of OpenAI's and Voyage's, and its vectors count letters.
type fakeEmbeddings struct {
	*httptest.Server
	asked  atomic.Int64
	refuse atomic.Int64 // the status to refuse with; 0: none
}

func newFakeEmbeddings(t *testing.T) *fakeEmbeddings {
	t.Helper()
	f := &fakeEmbeddings{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := int(f.refuse.Load()); status != 0 {
			w.WriteHeader(status)
			fmt.Fprint(w, `{"error":{"message":"Incorrect API key provided"}}`)
			return
		}
		var ask struct{ Input []string }
		if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		f.asked.Add(int64(len(ask.Input)))
		type item struct {
			Embedding []float32 `json:"embedding"`
			Index     int       `json:"index"`
		}
		var data []item
		for i, text := range ask.Input {
			v := make([]float32, 64)
			for _, word := range strings.Fields(strings.ToLower(text)) {
				h := fnv.New32()
				_, _ = h.Write([]byte(word))
				v[h.Sum32()%64]++
			}
			data = append(data, item{v, i})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": data, "model": "m"})
	}))
	t.Cleanup(f.Close)
	return f
}

func TestEmbeddersByConfiguration(t *testing.T) {
	for _, kind := range []string{"openai", "voyage"} {
		t.Run(kind, func(t *testing.T) {
			f := newFakeEmbeddings(t)
			t.Setenv("VOYAGE_API_KEY", "secret-of-voyage")
			t.Setenv("OPENAI_API_KEY", "secret-of-openai")
			e := open(t, map[string][]string{"one": nil}, map[string]any{
				"search": map[string]any{"embedder": kind, "embedderUrl": f.URL, "embedderModel": "m"},
			})
			found, err := e.Search(t.Context(), "add two numbers", metamcp.SearchOptions{Settle: time.Minute})
			if err != nil || len(found.Matches) == 0 || found.Matches[0].Name != "add" || len(found.Notes) != 0 {
				t.Fatalf("found %+v, %v", found, err)
			}
			if n := f.asked.Load(); n < 10 {
				t.Errorf("the embedder was asked for %d texts", n)
			}
			f.refuse.Store(http.StatusUnauthorized)
			found, err = e.Search(t.Context(), "subtract a number", metamcp.SearchOptions{})
			if err != nil || len(found.Notes) != 1 || !strings.Contains(found.Notes[0], "words alone") || strings.Contains(found.Notes[0], "secret-of") {
				t.Errorf("with a wrong key: %+v, %v", found, err)
			}
		})
	}
}
