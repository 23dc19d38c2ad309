//go:build unix

package e2e_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/metamcp/metamcp/integration/testkit"
)

// A configuration that is written into a pipe once, as the shell does it for
// `metamcp --config <(sops -d mcp.json)`, is enough for a command that looks at it
// more than once.
func TestConfigurationThroughAPipe(t *testing.T) {
	t.Parallel()
	piped := func(t *testing.T, args ...string) *testkit.Process {
		t.Helper()
		home, mark := t.TempDir(), testkit.NewMark()
		file, pipe := filepath.Join(home, "plain.json"), filepath.Join(home, "mcp.json")
		testkit.WriteConfig(t, file, mark, servers{"demo": testkit.DemoServer(t)}, nil)
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		written := make(chan error, 1)
		go func() {
			text, err := os.ReadFile(file)
			written <- errors.Join(err, os.WriteFile(pipe, text, 0))
		}()
		p := testkit.StartCommand(t, testkit.Command{
			Path: testkit.PlainBinary(t), Args: append(args, "--config", pipe), Env: []string{"HOME=" + home}, Dir: home, Mark: mark,
		})
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, args := range [][]string{nil, {"serve"}, {"--attach", "never"}} {
		t.Run("metamcp "+strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			p := piped(t, args...)
			c := &client{Lines: p.Lines(t), p: p, t: t}
			c.Handshake()
			c.echo("demo", "through a pipe")
		})
	}
	t.Run("metamcp logs", func(t *testing.T) {
		t.Parallel()
		p := piped(t, "logs", "demo")
		if status := p.Wait(t, patience); status != 1 || !strings.Contains(p.Stderr.String(), "there is no log") {
			t.Errorf("status %d: %s", status, p.Stderr)
		}
	})
}
