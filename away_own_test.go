package metamcp

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/messages"
)

// overloaded is a server behind a URL that answers the requests of one method with 503
// for as long as it is told to, and counts them.
type overloaded struct {
	method string
	down   atomic.Bool
	asked  atomic.Int64
}

func (s *overloaded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // who asked is gone
	}
	if strings.Contains(string(body), `"`+s.method+`"`) {
		s.asked.Add(1)
		if s.down.Load() {
			w.Header().Set("Retry-After", "40")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	serveRPC(w, r, func(method string) string {
		switch method {
		case "initialize":
			return `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"overloaded","version":"1"}}`
		case "tools/list":
			return `"result":{"tools":[{"name":"work","description":"does some work","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			return `"result":{"content":[]}`
		}
		return noSuchMethod
	})
}

// withOverloaded is an engine with such a server, named far, that breaks its circuit
// after three failures, and with a skill that needs it.
func withOverloaded(t *testing.T, s *overloaded) *Engine {
	t.Helper()
	s.down.Store(true)
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	dir := t.TempDir()
	skill := filepath.Join(dir, ".claude", "skills", "toil")
	if err := os.MkdirAll(skill, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(skill, "SKILL.md"), []byte("---\nname: toil\ndescription: Toil.\nrequires-mcp: far\n---\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "mcp.json")
	text := fmt.Sprintf(`{"mcpServers":{"far":{"url":%q}},"metamcp":{"pool":{"failureThreshold":3,"cooldownMs":30000}}}`, web.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return opened(t, Options{Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir}, Log: slog.New(slog.DiscardHandler)})
}

// wantAway asks in all ways for a server that takes no calls for now, and wants to hear so.
func wantAway(t *testing.T, e *Engine) {
	t.Helper()
	a, err := e.Discover(t.Context(), DiscoverRequest{})
	if err != nil || len(a.Servers) != 1 {
		t.Fatalf("%+v, %v", a, err)
	}
	if s := a.Servers[0]; s.State != "FAILED" || s.Class != "http" || !strings.Contains(s.Error, "503") || s.RetryInMs <= 30_000 {
		t.Errorf("it is listed as %+v", s)
	}
	if len(a.Skills) != 1 || a.Skills[0].Ready || len(a.Skills[0].Requires) != 1 || a.Skills[0].Requires[0].State != SkillServerFailed {
		t.Errorf("the skill that needs it is %+v", a.Skills)
	}
	a, err = e.Discover(t.Context(), DiscoverRequest{Query: "work"})
	inNote := err == nil && strings.Contains(strings.Join(a.Notes, "\n"), "Do not call far in the next ")
	if inLine := err == nil && len(a.Failed) == 1 && a.Failed[0].RetryInMs > 30_000; inNote == inLine {
		t.Errorf("a query is answered with %+v, %v", a, err)
	}
}

// A server whose circuit is open is told of as one that takes no calls, though there is a
// connection to it.
func TestOpenCircuitOfAConnectedServerIsTold(t *testing.T) {
	s := &overloaded{method: "tools/call"}
	e := withOverloaded(t, s)
	for range 3 {
		if _, err := e.Execute(t.Context(), "far", "work", nil, ExecuteOptions{}); err == nil {
			t.Fatal("a call was answered")
		}
	}
	var refused *Error
	if _, err := e.Execute(t.Context(), "far", "work", nil, ExecuteOptions{}); !errors.As(err, &refused) || refused.Code != messages.CodeCircuitOpen {
		t.Fatalf("the circuit is not open: %v", err)
	}
	if !e.ListServers()[0].Connected {
		t.Error("the connection is gone")
	}
	wantAway(t, e)
	if n := s.asked.Load(); n != 3 {
		t.Errorf("the server had %d calls", n)
	}
}

// A server that answers the first listing of its tools with 503 has failed with that, and
// is asked no more often than one that does not start.
func TestServerThatDoesNotListItsToolsIsTold(t *testing.T) {
	s := &overloaded{method: "tools/list"}
	e := withOverloaded(t, s)
	for range 3 {
		a, err := e.Discover(t.Context(), DiscoverRequest{Query: "work"})
		if err != nil || len(a.Failed) != 1 || a.Failed[0].Class != "http" || !strings.Contains(a.Failed[0].Error, "503") {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	wantAway(t, e)
	var refused *Error
	if _, err := e.Execute(t.Context(), "far", "work", nil, ExecuteOptions{}); !errors.As(err, &refused) || refused.Code != messages.CodeCircuitOpen || refused.Class != messages.ClassHTTP {
		t.Errorf("a call is answered with %v", err)
	}
	if n := s.asked.Load(); n != 3 {
		t.Errorf("the server was asked for its tools %d times, want 3", n)
	}
}
