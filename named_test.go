package metamcp

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/config"
)

// TestAServerThatIsNamedIsReached though a search, which is answered by now, has all places
// taken by servers that do not start.
func TestAServerThatIsNamedIsReached(t *testing.T) {
	t.Parallel()
	settle := DiscoverRequest{Server: "named", Settle: time.Second}
	for name, ask := range map[string]func(ctx context.Context, e *Engine) error{
		"ListTools": func(ctx context.Context, e *Engine) error {
			_, err := e.ListTools(ctx, "named", false)
			return err
		},
		"ToolDetails": func(ctx context.Context, e *Engine) error {
			_, err := e.ToolDetails(ctx, "named", "tool1")
			return err
		},
		"Refresh": func(ctx context.Context, e *Engine) error { return e.Refresh(ctx, "named") },
		"Discover": func(ctx context.Context, e *Engine) error {
			_, err := e.Discover(ctx, settle)
			return err
		},
		"a query": func(ctx context.Context, e *Engine) error {
			search := settle
			search.Query = "tool1"
			a, err := e.Discover(ctx, search)
			if err == nil && len(a.Matches) == 0 {
				err = fmt.Errorf("it found nothing: pending %v, failed %v", a.Pending, a.Failed)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			silent := &holding{"initialize", make(chan struct{}, 8), release}
			waits, answers := httptest.NewServer(silent), httptest.NewServer(&growing{full: true})
			t.Cleanup(waits.Close)
			t.Cleanup(answers.Close)
			dir := t.TempDir()
			file := filepath.Join(dir, "mcp.json")
			text := fmt.Sprintf(`{"mcpServers":{"a":{"url":%q},"b":{"url":%q},"named":{"url":%q}},
				"metamcp":{"discoverTimeoutMs":1,"pool":{"poolSize":2,"resPoolSize":0,"acquireTimeoutMs":10000}}}`, waits.URL+"/a", waits.URL+"/b", answers.URL)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			e := opened(t, Options{Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir}, Log: slog.New(slog.DiscardHandler)})
			t.Cleanup(func() { close(release) })
			if found, err := e.Search(t.Context(), "anything", SearchOptions{}); err != nil || len(found.Pending) != 3 {
				t.Fatalf("pending %v, %v", found.Pending, err)
			}
			for range 2 {
				select {
				case <-silent.held:
				case <-time.After(time.Minute):
					t.Fatal("the servers were not contacted")
				}
			}
			if err := ask(t.Context(), e); err != nil {
				t.Error(err)
			}
		})
	}
}
