package metamcp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

var errNoRoom = errors.New("no room")

// fullOutput takes nothing.
type fullOutput struct{}

func (fullOutput) Write([]byte) (int, error) { return 0, errNoRoom }

// Close may be called again, and by two at once, whatever it has to write; all say what
// could not be written.
func TestCloseMoreThanOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, trace string // trace is a setting; "FILE": some file
		out         io.Writer
		want        error
	}{
		{"no trace", "", nil, nil},
		{"for people", "stderr", io.Discard, nil},
		{"a file", "FILE", nil, nil},
		{"nobody takes it", "stderr", fullOutput{}, errNoRoom},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if c.trace == "FILE" {
				c.trace = filepath.Join(dir, "trace.jsonl")
			}
			file := filepath.Join(dir, "mcp.json")
			if err := os.WriteFile(file, []byte(`{"mcpServers":{}}`), 0o600); err != nil {
				t.Fatal(err)
			}
			e, err := Open(t.Context(), Options{
				Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir, Environ: []string{"METAMCP_TRACE=" + c.trace}},
				Log:     slog.New(slog.DiscardHandler), TraceOutput: c.out, NoWatchdog: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			if (e.trace != nil) != (c.trace != "") {
				t.Fatal("it is not traced as the test wants it")
			}
			closes := make(chan error)
			for range 2 {
				go func() { closes <- e.Close(t.Context()) }()
			}
			first := <-closes
			if !errors.Is(first, c.want) {
				t.Errorf("it says %v, want %v", first, c.want)
			}
			for _, again := range []error{<-closes, e.Close(t.Context())} {
				if !errors.Is(again, c.want) || c.want != nil && again.Error() != first.Error() {
					t.Errorf("another one says %v, the first %v", again, first)
				}
			}
		})
	}
}

// within fails the test where f, whose context has no end, does not return.
func within(t *testing.T, what string, f func(ctx context.Context) error) error {
	t.Helper()
	said := make(chan error, 1)
	go func() { said <- f(context.WithoutCancel(t.Context())) }()
	select {
	case err := <-said:
		return err
	case <-time.After(2 * time.Second):
		t.Fatalf("%s does not return", what)
		return nil
	}
}

// isCode says whether an error is an *[Error], and nothing around one, with that code.
func isCode(err error, code messages.Code) bool {
	own, ok := err.(*Error) //nolint:errorlint // that is what is promised
	return ok && own.Code == code
}

func TestReloadAfterClose(t *testing.T) {
	t.Parallel()
	r := openReloading(t, `{"mcpServers":{}}`)
	if err := r.e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.write(`{"mcpServers":{"s":{"command":"none"}}}`)
	for range 2 { // the first one holds nothing up
		if err := within(t, "Reload", r.e.Reload); !isCode(err, messages.CodeShuttingDown) {
			t.Errorf("it says %v", err)
		}
	}
	if r.e.Config().Server("s") != nil {
		t.Error("the configuration is taken over after the end")
	}
}

// A runtime whose pool failed again and again stops without Close.
func TestARuntimeThatStoppedIsDescribed(t *testing.T) {
	t.Parallel()
	r := openReloading(t, `{"mcpServers":{}}`)
	for range 2 * (supervision.DefaultFailureLimit + 1) {
		r.e.core.Squeeze(func(int) { panic("a bug of the test") })
	}
	<-r.e.GaveUp()
	var s *messages.HostStatus
	err := within(t, "HostStatus", func(ctx context.Context) (err error) {
		s, err = r.e.HostStatus(ctx, true)
		return err
	})
	if err != nil || s.PID == 0 || s.Pool.Size != 0 || len(s.Actors) > 0 {
		t.Errorf("the host is %+v, %v", s, err)
	}
	var refuses bool
	err = within(t, "refusing", func(ctx context.Context) (err error) {
		refuses, err = r.e.refusing(ctx)
		return err
	})
	if err != nil || !refuses {
		t.Errorf("it refuses calls: %t, %v", refuses, err)
	}
	if err := within(t, "Reload", r.e.Reload); !isCode(err, messages.CodeShuttingDown) {
		t.Errorf("Reload says %v", err)
	}
}

// Who waits for another reload waits no longer than it wants to.
func TestReloadBesideAnotherOne(t *testing.T) {
	t.Parallel()
	r := openReloading(t, `{"mcpServers":{}}`)
	if err := r.e.lockReload(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.e.Reload(ctx); !isCode(err, messages.CodeCancelled) || !errors.Is(err, context.Canceled) {
		t.Errorf("it says %v", err)
	}
	r.e.unlockReload()
	r.reload()
}

// A reload that is given up while the engine follows says that the change is in force.
func TestReloadIsGivenUp(t *testing.T) {
	t.Parallel()
	r := openReloading(t, `{"mcpServers":{}}`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cfg := *r.e.Config()
	var err error
	for err == nil { // it may be over before it looks
		if err = r.e.lockReload(t.Context()); err == nil {
			err = r.e.take(ctx, &cfg)
			r.e.unlockReload()
		}
	}
	if !isCode(err, messages.CodeCancelled) || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "in force") {
		t.Errorf("it says %v", err)
	}
}

func TestServeStdioAfterClose(t *testing.T) {
	t.Parallel()
	r := openReloading(t, `{"mcpServers":{}}`)
	if err := r.e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(in.Close(), out.Close()) }()
	if err := within(t, "ServeStdio", func(ctx context.Context) error { return r.e.ServeStdio(ctx, in, out) }); !isCode(err, messages.CodeShuttingDown) {
		t.Errorf("it says %v", err)
	}
}
