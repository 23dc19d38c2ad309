package metamcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/demoserver"
	"github.com/metamcp/metamcp/integration/testkit"
)

// childVariable makes this test binary be a child server: a real process for
// tests and examples that need no other program.
const childVariable = "METAMCP_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(beChild())
	}
	os.Exit(m.Run())
}

func beChild() int {
	opts, err := demoserver.ParseArgs(os.Args[1:], os.Stderr)
	if err == nil {
		err = demoserver.Run(context.Background(), os.Stdin, os.Stdout, opts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// demo is how a demo server is started: the program that `make` has built for the
// tests, else this test binary, which takes ten times as long for it where it has the
// race detector.
func demo(flags ...string) (command string, args []string) {
	command = testkit.PrebuiltDemo()
	if command == "" {
		var err error
		if command, err = os.Executable(); err != nil {
			panic(err)
		}
	}
	return command, append([]string{}, flags...)
}

// children is a configuration of demo servers, each with its own flags.
func children(servers map[string][]string, settings map[string]any) map[string]any {
	entries := map[string]any{}
	for name, flags := range servers {
		command, args := demo(flags...)
		entries[name] = map[string]any{"command": command, "args": args, "env": map[string]string{childVariable: "1"}}
	}
	return map[string]any{"mcpServers": entries, "metamcp": settings}
}

func writeConfig(dir string, cfg map[string]any) (string, error) {
	raw, err := json.Marshal(cfg)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "mcp.json")
	return file, os.WriteFile(file, raw, 0o600)
}

// open starts an engine in a folder of its own and closes it with the test.
func open(t testing.TB, servers map[string][]string, settings map[string]any) *metamcp.Engine {
	t.Helper()
	return openConfig(t, t.TempDir(), children(servers, settings))
}

func openIn(t *testing.T, dir string, servers map[string][]string) *metamcp.Engine {
	t.Helper()
	return openConfig(t, dir, children(servers, nil))
}

func openConfig(t testing.TB, dir string, cfg map[string]any) *metamcp.Engine {
	t.Helper()
	return openLogging(t, dir, cfg, slog.DiscardHandler)
}

// openLogging is [openConfig] with a log.
func openLogging(t testing.TB, dir string, cfg map[string]any, log slog.Handler) *metamcp.Engine {
	t.Helper()
	file, err := writeConfig(dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return openFrom(t, config.Sources{Files: []string{file}, Home: dir, Cwd: dir}, log)
}

// openFrom is [openLogging] with sources of the test's own.
func openFrom(t testing.TB, sources config.Sources, log slog.Handler) *metamcp.Engine {
	t.Helper()
	e, err := metamcp.Open(t.Context(), metamcp.Options{
		Sources: sources, Log: slog.New(log),
		Sandbox: testkit.Prebuilt(), Watchdog: testkit.Prebuilt(), // else this test binary, see [demo]
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
	return e
}
