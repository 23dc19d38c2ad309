package npmservers_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/npmservers"
	"github.com/metamcp/metamcp/integration/testkit"
)

const (
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`
	discover   = `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// Every server starts from the path that it is said to have, and speaks the
// generation of the protocol that it is there for.
func TestServersAnswer(t *testing.T) {
	node := npmservers.Node(t)
	modernNode, dbhub := npmservers.DBHub(t)
	tests := []struct {
		name, request, want string
		command             []string
	}{
		{"everything", initialize, `"protocolVersion":"2025-11-25"`, []string{node, npmservers.Entry(t, npmservers.Everything), "stdio"}},
		{"filesystem", initialize, `"protocolVersion":"2025-11-25"`, []string{node, npmservers.Entry(t, npmservers.Filesystem), t.TempDir()}},
		{"memory", initialize, `"protocolVersion":"2025-11-25"`, []string{node, npmservers.Entry(t, npmservers.Memory)}},
		{"sequential-thinking", initialize, `"protocolVersion":"2025-11-25"`, []string{node, npmservers.Entry(t, npmservers.SequentialThinking)}},
		{"legacy refuses discover", discover, `-32601`, []string{node, npmservers.Entry(t, npmservers.Memory)}},
		{"dbhub", discover, `"supportedVersions":["2026-07-28"`, []string{modernNode, dbhub, "--transport", "stdio", "--demo"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := testkit.StartCommand(t, testkit.Command{Path: tt.command[0], Args: tt.command[1:]})
			lines := p.Lines(t)
			lines.Send([]byte(tt.request))
			if got := lines.Response(`1`); !strings.Contains(string(got), tt.want) {
				t.Errorf("answer %s, want %s in it", got, tt.want)
			}
		})
	}
}

// A lock file that names the registry of the machine it was made on would send
// every other machine there.
func TestLockFilesNameNoHost(t *testing.T) {
	for _, dir := range []string{npmservers.Dir(t), npmservers.ModernDir(t), npmservers.BrowserDir(t), npmservers.CompilerDir(t), npmservers.ConformanceDir(t), npmservers.ClientsDir(t)} {
		data, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
		if err != nil {
			t.Fatal(err)
		}
		var lock struct {
			Packages map[string]struct{ Resolved, Integrity string }
		}
		if err := json.Unmarshal(data, &lock); err != nil {
			t.Fatal(err)
		}
		for name, p := range lock.Packages {
			if p.Resolved != "" {
				t.Errorf("%s in %s is resolved to %s", name, dir, p.Resolved)
			}
			if name != "" && p.Integrity == "" {
				t.Errorf("%s in %s has no integrity hash", name, dir)
			}
		}
	}
}

// The browser runs with what comes with it, and says its version.
func TestBrowserStarts(t *testing.T) {
	b := npmservers.Chromium(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.Path, "--version")
	cmd.Env = append(os.Environ(), b.Env...)
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), "Chrom") {
		t.Errorf("%s says %q: %v", b.Path, out, err)
	}
}
