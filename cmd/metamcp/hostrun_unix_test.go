//go:build unix

package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/attach"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/control"
)

// A host that is asked to end while it starts leaves the one alone that it was to
// replace: there would be none.
func TestAskedToEndBeforeItTakesThePlace(t *testing.T) {
	dir, err := os.MkdirTemp("", "mm") //nolint:usetesting // the folder of a test is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(file, []byte(`{"metamcp": {"stateDir": "`+dir+`"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := metamcp.Open(t.Context(), metamcp.Options{
		Sources: config.Sources{Files: []string{file}, Home: dir, Environ: []string{}}, Log: slog.New(slog.DiscardHandler), NoWatchdog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := closeWithin(t.Context(), endTimeout, e.Close); err != nil {
			t.Error(err)
		}
	}()
	stopped := false
	runs, err := control.Serve(control.Options{
		StateDir: dir, Configs: e.Config().Files, Host: newFakeHost(dir), Stop: func(bool) { stopped = true },
		Attach: func(context.Context, *os.File, *os.File, attach.Hello) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer endFake(t, runs)
	asked := make(chan ending, 2)
	ask(asked, false)
	var said strings.Builder
	h, err := (&common{stderr: &said}).openHost(t.Context(), e, &hostFlags{replace: true}, asked)
	if h != nil {
		defer func() { _ = closeWithin(t.Context(), endTimeout, h.Close) }()
	}
	if h != nil || err != nil || stopped {
		t.Errorf("%v, %v, and the host that runs was stopped: %v", h, err, stopped)
	}
	if got := said.String(); got != "metamcp: "+errAskedToEnd.Error()+"\n" {
		t.Errorf("it says %q", got)
	}
	if attach.Coming(dir, e.Config().Files) {
		t.Error("clients still wait for it")
	}
}
