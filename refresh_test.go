package metamcp

import (
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

// growing is a server behind a URL whose every listing has one tool more, and which
// does not say so.
type growing struct{ listed atomic.Int64 }

func (s *growing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	body, err := io.ReadAll(r.Body)
	if r.Method != http.MethodPost || err != nil || json.Unmarshal(body, &m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	answer := `"error":{"code":-32601,"message":"no such method"}`
	switch {
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	case m.Method == "initialize":
		answer = `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"growing","version":"1"}}`
	case m.Method == "tools/list":
		var tools []string
		for i := range s.listed.Add(1) {
			tools = append(tools, fmt.Sprintf(`{"name":"tool%d","inputSchema":{"type":"object"}}`, i+1))
		}
		answer = `"result":{"tools":[` + strings.Join(tools, ",") + `]}`
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer)
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
