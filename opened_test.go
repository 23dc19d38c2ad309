package metamcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

// opened is an engine that is closed at the end of the test. Its processes are of the
// program that `make` has built for the tests, where it has: this test binary takes three
// times as long to start where it has the race detector.
func opened(t testing.TB, opts Options) *Engine {
	t.Helper()
	opts.Sandbox, opts.Watchdog = testkit.Prebuilt(), testkit.Prebuilt()
	e, err := Open(t.Context(), opts)
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
	return e
}

// Whoever gives an engine up while it opens hears that, as any error, as an *[Error].
func TestOpenIsGivenUp(t *testing.T) {
	leavesNothing(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers":{},"metamcp":{"cache":{"enabled":false}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var err error
	for err == nil { // it may be open before it looks
		var e *Engine
		if e, err = Open(ctx, Options{Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir}, Log: slog.New(slog.DiscardHandler)}); err == nil {
			if err := e.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	var told *Error
	if !errors.As(err, &told) || told.Code != messages.CodeCancelled || !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %T %v", err, err)
	}
}

// leavesNothing holds the test to leave no goroutine behind. It is for tests that are not
// parallel.
func leavesNothing(t *testing.T) {
	others := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, others) })
}

// An engine that does not open leaves nothing running.
func TestNothingIsLeftOfAFailedOpen(t *testing.T) {
	for name, settings := range map[string]string{
		"toolRules": `"toolRules":[{"pattern":"/(/","enabled":false}]`,
		"trace":     `"trace":"/","expose":["tools"]`,
	} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			dir := t.TempDir()
			file := filepath.Join(dir, "mcp.json")
			if err := os.WriteFile(file, []byte(`{"mcpServers":{"s":{"command":"none"}},"metamcp":{`+settings+`}}`), 0o600); err != nil {
				t.Fatal(err)
			}
			var own *Error
			if _, err := Open(t.Context(), Options{Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir, Environ: []string{}}, Log: slog.New(slog.DiscardHandler)}); !errors.As(err, &own) || own.Code != messages.CodeConfiguration || !strings.Contains(own.Message, name) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// noSuchMethod is the answer of a server to what it does not know; see serveRPC.
const noSuchMethod = `"error":{"code":-32601,"message":"no such method"}`

// serveRPC is a server behind a URL that answers each request at once, with the member
// result or error that it gives for the method.
func serveRPC(w http.ResponseWriter, r *http.Request, answer func(method string) string) {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	body, err := io.ReadAll(r.Body)
	if r.Method != http.MethodPost || err != nil || json.Unmarshal(body, &m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer(m.Method)) // who asked may be gone
}
