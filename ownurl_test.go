package metamcp_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/messages"
)

// A host whose entry names its own address would list its tools again and again.
func TestHostIsNoServerOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	write := func(servers map[string]any) string {
		file, err := writeConfig(dir, map[string]any{"mcpServers": servers})
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	e := openFrom(t, config.Sources{Files: []string{write(map[string]any{})}, Home: dir, Cwd: dir}, slog.DiscardHandler)
	l, err := e.ListenHTTP(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	write(map[string]any{
		"self": map[string]any{"url": strings.Replace(l.URL(), "127.0.0.1", "localhost", 1)},
	})
	if err := e.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	var failed *metamcp.Error
	if _, err := e.ListTools(t.Context(), "self", false); !errors.As(err, &failed) || failed.Code != messages.CodeConfiguration ||
		!strings.Contains(failed.Message, `the url of "self" is that at which this host serves its own clients`) || !strings.Contains(failed.Hint, "mcp.json:1") {
		t.Errorf("the tools of itself: %v", err)
	}
}
