package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/web"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// attack is a text that does something where it is taken for markup.
const attack = `<script>document.title="owned"</script><img src=x onerror="document.title='owned'">`

// child is an entry of a configuration: this test binary as a server.
func child(kind, description string, args ...string) map[string]any {
	self, err := os.Executable()
	if err != nil {
		panic(err) // no test can run without its own path
	}
	return map[string]any{"command": self, "args": append([]string{}, args...), "description": description, "env": map[string]string{childVariable: kind}}
}

// openPage starts an engine with a page and ends both with the test.
func openPage(t *testing.T, servers map[string]any, settings map[string]any) (*metamcp.Engine, *web.Server) {
	t.Helper()
	dir := t.TempDir()
	if settings == nil {
		settings = map[string]any{}
	}
	settings["cache"] = map[string]any{"enabled": false} // the page needs nothing on disk
	raw, err := json.Marshal(map[string]any{"mcpServers": servers, "metamcp": settings})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := metamcp.Open(t.Context(), metamcp.Options{
		Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir},
		Log:     slog.New(slog.DiscardHandler), Version: "1.0.0", NoWatchdog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	s, err := e.OpenWeb(":0", "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closePage(t, s) })
	return e, s
}

func closePage(t *testing.T, s *web.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// What servers say of themselves and their tools goes without secrets onto the page.
func TestThePageShowsNoSecrets(t *testing.T) {
	const known = "tr0ub4dor-and-3"
	file := filepath.Join(t.TempDir(), "tools.json")
	const tools = `{"forecast":{"name":"forecast","description":"Asks postgres://app:` + known + `@db.internal/prod for the weather.","inputSchema":{"type":"object"}}}`
	if err := os.WriteFile(file, []byte(tools), 0o600); err != nil {
		t.Fatal(err)
	}
	weather := child("demo", "asks "+known, "--tools-file", file)
	weather["env"].(map[string]string)["DB_PASSWORD"] = known
	e, s := openPage(t, map[string]any{"weather": weather}, map[string]any{"search": map[string]any{"embedder": "none"}})
	c := visit(t, s)
	for _, path := range []string{"/api/search?q=forecast", "/api/tool?server=weather&tool=forecast"} {
		if status, body := c.get(path); status != http.StatusOK || !strings.Contains(body, `"forecast"`) || strings.Contains(body, known) || !strings.Contains(body, "[REDACTED:DB_PASSWORD]") {
			t.Errorf("%s is answered with %d: %s", path, status, body)
		}
	}
	if st, err := e.HostStatus(t.Context(), false); err != nil || st.Servers[0].Description != "asks [REDACTED:DB_PASSWORD]" {
		t.Errorf("the status: %v, %v", st, err)
	}
}

func call(t *testing.T, e *metamcp.Engine, server, tool, args string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := e.Execute(ctx, server, tool, json.RawMessage(args), metamcp.ExecuteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// beHostile is a server whose tools are called and described by attacks. It
// ends with an attack on stderr when one is called.
func beHostile(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var ask struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.Unmarshal(lines.Bytes(), &ask); err != nil {
			return err
		}
		var result any
		switch ask.Method {
		case "initialize":
			result = map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{"tools": map[string]any{}}, "serverInfo": map[string]any{"name": attack, "version": attack}}
		case "tools/list":
			schema := map[string]any{"type": "object", "properties": map[string]any{attack: map[string]any{"type": "string", "description": attack}}}
			result = map[string]any{"tools": []any{map[string]any{"name": "<b>bold</b>", "title": attack, "description": "Hostile tool. " + attack, "inputSchema": schema}}}
		case "tools/call":
			return fmt.Errorf("fatal: %s", attack)
		default:
			continue
		}
		text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": ask.ID, "result": result})
		if err != nil {
			return err
		}
		if _, err := out.Write(append(text, '\n')); err != nil {
			return err
		}
	}
	return lines.Err()
}
