package metamcp

import (
	"bytes"
	"context"
	"encoding/json"
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
	"time"

	"github.com/metamcp/metamcp/integration/config"
)

// announcing is a server behind a URL that has one tool more after each call, and says so
// before it answers.
type announcing struct{ calls atomic.Int64 }

func (s *announcing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if err == nil && json.Unmarshal(body, &m) == nil && m.Method == "tools/call" {
		s.calls.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[]}}\n\n", m.ID) // who asked may be gone
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	serveRPC(w, r, s.answer)
}

func (s *announcing) answer(method string) string {
	switch method {
	case "initialize":
		return `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"announcing","version":"1"}}`
	case "tools/list":
		var tools []string
		for i := range s.calls.Load() + 1 {
			tools = append(tools, fmt.Sprintf(`{"name":"tool%d","inputSchema":{"type":"object"}}`, i))
		}
		return `"result":{"tools":[` + strings.Join(tools, ",") + `]}`
	}
	return noSuchMethod
}

// TestAnnouncedToolHasItsNameAtOnce: who has the answer that came after the announcement can
// call the tool by its own name, also in the pause before the next listing.
func TestAnnouncedToolHasItsNameAtOnce(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(&announcing{})
	t.Cleanup(web.Close)
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers":{"x":{"url":"`+web.URL+`"}},"metamcp":{"expose":["tools"]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	e := opened(t, Options{Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir}, Log: slog.New(slog.DiscardHandler)})
	for n := range 4 {
		if _, err := e.Execute(t.Context(), "x", "tool0", json.RawMessage(`{}`), ExecuteOptions{}); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("x__tool%d", n+1)
		if _, ok := e.expose.findTool(t.Context(), name); !ok {
			t.Errorf("there is no %s", name)
		}
	}
}

// unanswered is a server behind a URL that announces a change with each call and does not
// answer tools/list from then on.
type unanswered struct {
	announcing
	gone <-chan struct{}
}

func (s *unanswered) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err == nil && s.calls.Load() > 0 && bytes.Contains(body, []byte(`"tools/list"`)) {
		select {
		case <-r.Context().Done():
		case <-s.gone:
		}
		return
	}
	s.announcing.ServeHTTP(w, r)
}

// TestAServerThatDoesNotListIsNotAwaitedWithEachName: once a list would have waited long
// enough for it, unknown names are answered without it.
func TestAServerThatDoesNotListIsNotAwaitedWithEachName(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	web := httptest.NewServer(&unanswered{gone: gone})
	t.Cleanup(web.Close)
	t.Cleanup(func() { close(gone) })
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers":{"x":{"url":"`+web.URL+`"}},"metamcp":{"expose":["tools"],"timeoutMs":600000,"discoverTimeoutMs":50}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	e := opened(t, Options{Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir}, Log: slog.New(slog.DiscardHandler)})
	if _, err := e.Execute(t.Context(), "x", "tool0", json.RawMessage(`{}`), ExecuteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, ok := e.expose.findTool(t.Context(), "x__tool1"); ok {
		t.Fatal("there is a tool that was not listed")
	}
	entry, ok := e.core.Directory().Lookup("x")
	if !ok || !entry.Behind() {
		t.Fatal("it has listed what it announced, or is not asked for it")
	}
	askedAgo := func(long time.Duration) {
		e.expose.mu.Lock()
		defer e.expose.mu.Unlock()
		if e.expose.behind[askedKey(entry)].IsZero() {
			t.Error("it is not remembered")
		}
		e.expose.behind[askedKey(entry)] = time.Now().Add(-long)
	}
	askedAgo(e.Config().Settings.DiscoverTimeout)
	patient, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if e.expose.catchUp(patient); patient.Err() != nil {
		t.Error("it is waited for with each unknown name")
	}
	askedAgo(askAgain)
	wait, over := e.expose.patient(t.Context())
	defer over()
	if e.expose.catchUp(wait); wait.Err() == nil {
		t.Error("it is never waited for again")
	}
}
