package metamcp

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/config"
)

// growing is a server behind a URL whose every listing has one tool more, and which
// does not say so; one that is full has the same tool always.
type growing struct {
	listed atomic.Int64
	full   bool
}

func (s *growing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	serveRPC(w, r, s.answer)
}

func (s *growing) answer(method string) string {
	switch method {
	case "initialize":
		return `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"growing","version":"1"}}`
	case "tools/list":
		var tools []string
		count := s.listed.Add(1)
		if s.full {
			count = 1
		}
		for i := range count {
			tools = append(tools, fmt.Sprintf(`{"name":"tool%d","inputSchema":{"type":"object"}}`, i+1))
		}
		return `"result":{"tools":[` + strings.Join(tools, ",") + `]}`
	}
	return noSuchMethod
}

// What is kept of a server can be thrown away by hand: it is asked anew, connected or
// not.
func TestRefresh(t *testing.T) {
	s := httptest.NewServer(&growing{})
	t.Cleanup(s.Close)
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers":{"grows":{"url":"`+s.URL+`"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	e := opened(t, Options{Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir}, Log: slog.New(slog.DiscardHandler)})
	count := func() int {
		t.Helper()
		tools, err := e.ListTools(t.Context(), "grows", false)
		if err != nil {
			t.Fatal(err)
		}
		return len(tools)
	}
	before := count()
	if again := count(); again != before {
		t.Fatalf("%d tools, and then %d: nothing is kept", before, again)
	}
	if err := e.Refresh(t.Context(), "grows"); err != nil {
		t.Fatal(err)
	}
	if after := count(); after != before+1 {
		t.Errorf("%d tools after %d, want one more", after, before)
	}
	if err := e.Refresh(t.Context(), "nobody"); err == nil {
		t.Error("a server that is not there is refreshed")
	}
}

// What is kept on disk says when it was listed last, also where it is the same as long
// ago: after a start it counts as old otherwise.
func TestKeptListingIsAsOldAsTheLast(t *testing.T) {
	s := httptest.NewServer(&growing{full: true})
	t.Cleanup(s.Close)
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers":{"same":{"url":"`+s.URL+`"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	// life is one run of a host, in which the server lists its tools.
	life := func() {
		t.Helper()
		e, err := Open(t.Context(), Options{Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(e.Refresh(t.Context(), "same"), e.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	life()
	kept := filepath.Join(dir, ".metamcp", "cache", "same", "schema.json")
	fetched := regexp.MustCompile(`"fetched":"([^"]+)"`)
	when := func() time.Time {
		t.Helper()
		text, err := os.ReadFile(kept)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, string(fetched.FindSubmatch(text)[1]))
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for _, off := range []time.Duration{-2 * time.Hour, 365 * 24 * time.Hour} { // of a clock that went back since
		text, err := os.ReadFile(kept)
		if err != nil {
			t.Fatal(err)
		}
		text = fetched.ReplaceAll(text, []byte(`"fetched":"`+when().Add(off).Format(time.RFC3339)+`"`))
		if err := os.WriteFile(kept, text, 0o600); err != nil {
			t.Fatal(err)
		}
		life()
		if at := when(); time.Since(at).Abs() > time.Hour {
			t.Errorf("it is kept as of %v, which is that of before", at)
		}
	}
}
