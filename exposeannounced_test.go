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
	"strings"
	"sync/atomic"
	"testing"

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
