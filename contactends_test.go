package metamcp

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/messages"
)

// holding is a server behind a URL that answers one method late, or never.
type holding struct {
	method  string
	held    chan struct{} // gets one for each request that is held
	release <-chan struct{}
}

func (s *holding) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	serveRPC(w, r, func(method string) string {
		if method == s.method {
			s.held <- struct{}{}
			<-s.release
		}
		return (&growing{full: true}).answer(method)
	})
}

// Who asks for a server's tools and goes on no longer than its context hears what was
// waited for: nothing where the caller gave up, else the start or the listing.
func TestWhatWasWaitedForInListingTools(t *testing.T) {
	for name, c := range map[string]struct{ held, far string }{
		"start":   {"initialize", "it is still being started"},
		"listing": {"tools/list", "it is connected, and has not answered yet"},
	} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			s := &holding{c.held, make(chan struct{}, 8), release}
			web := httptest.NewServer(s)
			t.Cleanup(web.Close)
			dir := t.TempDir()
			file := filepath.Join(dir, "mcp.json")
			if err := os.WriteFile(file, []byte(`{"mcpServers":{"waits":{"url":"`+web.URL+`"}}}`), 0o600); err != nil {
				t.Fatal(err)
			}
			e := opened(t, Options{Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir}, Log: slog.New(slog.DiscardHandler)})
			t.Cleanup(func() { close(release) })
			gone, leave := context.WithCancel(t.Context())
			leave()
			asks := map[string]func(ctx context.Context) error{
				"ListTools": func(ctx context.Context) error {
					_, err := e.ListTools(ctx, "waits", false)
					return err
				},
				"ToolDetails": func(ctx context.Context) error {
					_, err := e.ToolDetails(ctx, "waits", "tool1")
					return err
				},
				"Refresh": func(ctx context.Context) error { return e.Refresh(ctx, "waits") },
			}
			cancelled := func(name string, err error, hint string) {
				t.Helper()
				var told *Error
				if !errors.As(err, &told) || told.Code != messages.CodeCancelled || told.Retryable || told.Class != "" || !errors.Is(err, context.Canceled) || !strings.Contains(told.Hint, hint) {
					t.Errorf("%s of one who gave up: %#v", name, err)
				}
			}
			for name, ask := range asks {
				cancelled(name, ask(gone), "Nothing was sent")
			}
			if st := e.ListServers()[0]; st.State != "IDLE" || st.Connected {
				t.Errorf("the server is %+v: it was started for nobody", st)
			}
			waits, leave := context.WithCancel(t.Context())
			defer leave()
			answered := make(chan error, 1)
			go func() { answered <- asks["ListTools"](waits) }()
			select {
			case <-s.held:
			case <-time.After(time.Minute):
				t.Fatal("the server was not asked")
			}
			for name, ask := range asks {
				over, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				err := ask(over)
				cancel()
				var told *Error
				if !errors.As(err, &told) || told.Code != messages.CodeConnection || !told.Retryable || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(told.Message, c.far) {
					t.Errorf("%s, while the %s goes on: %#v", name, c.held, err)
				}
			}
			leave()
			cancelled("ListTools", <-answered, "goes on")
		})
	}
}
