package metamcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/config"
)

// sessionsOnly refuses every request without a session before it reads it, with an id
// that is nobody's, as servers of the Python SDK do.
type sessionsOnly struct{ growing }

func (s *sessionsOnly) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const session = "Mcp-Session-Id"
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var m struct{ Method string }
	switch {
	case json.Unmarshal(body, &m) == nil && m.Method == "initialize":
		w.Header().Set(session, "one")
	case r.Header.Get(session) == "":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request: Missing session ID"}}`)
		return
	}
	s.growing.ServeHTTP(w, r)
}

// Such a server is there at once, and not when the time for the greeting that it
// refuses is over.
func TestServerThatKnowsSessionsOnly(t *testing.T) {
	s := httptest.NewServer(&sessionsOnly{})
	t.Cleanup(s.Close)
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers":{"old":{"url":"`+s.URL+`","startupTimeoutMs":600000}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	e := opened(t, Options{Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir}, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if tools, err := e.ListTools(ctx, "old", false); err != nil || len(tools) == 0 {
		t.Errorf("%d tools, %v", len(tools), err)
	}
}
