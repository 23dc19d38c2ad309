package metamcp_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/testkit"
)

// TestStatusSaysWhyAConfigurationIsNotInForce, and no longer when the file is good again,
// also where that is what was in force all the time.
func TestStatusSaysWhyAConfigurationIsNotInForce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const good = `{"mcpServers": {}}`
	write(good)
	e, err := metamcp.Open(t.Context(), metamcp.Options{
		Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir, Environ: []string{}}, Log: slog.New(slog.DiscardHandler),
		Watch: true, NoWatchdog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(t.Context())
	for _, c := range []struct{ text, problem string }{
		{`{"mcpServers": 1 2}`, file + ":1:18: "},
		{good, ""},
		{`{"metamcp": {"toolRules": [{"pattern": "/(/", "enabled": false}]}}`, "toolRules"},
		{`{"mcpServers": {"a": {"command": "none", "disabled": true}}}`, ""},
	} {
		write(c.text)
		testkit.Eventually(t, time.Minute, func() error {
			st, err := e.HostStatus(t.Context(), false)
			if err == nil && ((st.ConfigProblem == "") != (c.problem == "") || !strings.Contains(st.ConfigProblem, c.problem)) {
				err = fmt.Errorf("with %s the status says %q", c.text, st.ConfigProblem)
			}
			return err
		})
	}
}
