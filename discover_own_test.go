package metamcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/metamcp/metamcp/index/embed/httpembed/cloudtest"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/testkit"
)

// While the tools are not embedded yet nobody is sent away for words that no tool has.
func TestASearchBeforeTheVectorsIsToBeAskedAgain(t *testing.T) {
	cloud, served := cloudtest.New(t, cloudtest.Voyage), make(chan struct{})
	cloud.Before = func(_ int, _ http.ResponseWriter, r *http.Request) bool {
		body, err := io.ReadAll(r.Body)
		if err == nil && bytes.Contains(body, []byte(`"document"`)) {
			select {
			case <-served:
			case <-r.Context().Done():
			}
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		return false
	}
	t.Setenv("VOYAGE_API_KEY", cloud.Key)
	s := httptest.NewServer(&growing{})
	t.Cleanup(s.Close)
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp.json")
	text := fmt.Sprintf(`{"mcpServers":{"grows":{"url":%q}},"metamcp":{"search":{"embedder":"voyage","embedderUrl":%q,"embedderModel":%q}}}`, s.URL, cloud.URL+"/v1", cloud.Model)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e := opened(t, Options{Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir}, Log: slog.New(slog.DiscardHandler)})
	again := func(note string) bool { return strings.Contains(note, "ask the same again") }
	ask := func() *DiscoverAnswer {
		t.Helper()
		a, err := e.Discover(t.Context(), DiscoverRequest{Query: "zyxwvutsrq"})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := ask()
	if len(a.Matches) != 0 || !slices.ContainsFunc(a.Notes, again) || slices.ContainsFunc(a.Notes, func(note string) bool { return strings.Contains(note, "other words") }) {
		t.Errorf("by words alone: %+v", a)
	}
	close(served)
	testkit.Eventually(t, time.Minute, func() error {
		if a := ask(); slices.ContainsFunc(a.Notes, again) {
			return fmt.Errorf("with vectors: %+v", a)
		}
		return nil
	})
}

// The advice goes with what was looked at.
func TestFitNote(t *testing.T) {
	t.Parallel()
	good, poor := []Match{{Score: 0.05}, {Score: 0.9}}, []Match{{Score: 0.05}}
	for _, c := range []struct {
		found SearchResult
		want  string // what the note has in it; "": there is none
	}{
		{SearchResult{}, "use other words"},
		{SearchResult{soon: true}, "No tool has these words; ask the same again"},
		{SearchResult{Pending: []string{"x"}}, ""},
		{SearchResult{Pending: []string{"x"}, soon: true}, "ask the same again"},
		{SearchResult{Matches: poor}, "may all be wrong"},
		{SearchResult{Matches: poor, soon: true}, "but in part; ask the same again"},
		{SearchResult{Matches: good}, ""},
		{SearchResult{Matches: good, soon: true}, ""},
	} {
		if got := fitNote(&c.found); !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%+v: %q, want %q in it", c.found, got, c.want)
		}
	}
}

// TestArgumentsThatAreNoObject: what is wrong is said of the arguments, and not of an
// argument without a name.
func TestArgumentsThatAreNoObject(t *testing.T) {
	for _, given := range []any{"x", []any{}, 5, map[string]any{"limit": "x"}} {
		_, err := discoverArguments(mcp.CallToolRequest{Params: mcp.CallToolParams{Arguments: given}})
		want := "what is given as arguments has to be an object"
		if _, object := given.(map[string]any); object {
			want = `"limit" has to be a whole number`
		}
		if err == nil || !strings.Contains(err.Message, want) {
			t.Errorf("%v: %v, want %s", given, err, want)
		}
	}
}

// TestWholeNumbers: what JSON Schema counts as an integer is one, however it is written.
func TestWholeNumbers(t *testing.T) {
	for text, want := range map[string]int{`3`: 3, `3.0`: 3, `30e-1`: 3, `1E1`: 10, `-0.0`: 0, `null`: 0, `-5`: -5, `3.5`: -1, `"3"`: -1, `1e400`: -1, `1e300`: -1, `[3]`: -1, `true`: -1} {
		ask, err := discoverArguments(mcp.CallToolRequest{Params: mcp.CallToolParams{Arguments: json.RawMessage(`{"query":"x","limit":` + text + `}`)}})
		switch {
		case want == -1 && (err == nil || !strings.Contains(err.Message, `"limit" has to be a whole number`)):
			t.Errorf("%s: %+v, %v", text, ask, err)
		case want != -1 && (err != nil || ask.Limit != want || ask.Query != "x"):
			t.Errorf("%s: %+v, %v; want %d", text, ask, err, want)
		}
		search, err := readSearch(json.RawMessage(`{"query":"x","limit":` + text + `}`))
		if fits := want > 0 || text == "null"; fits != (err == nil) || fits && int(search.Limit) != want {
			t.Errorf("%s in a script: %+v, %v", text, search, err)
		}
	}
}
