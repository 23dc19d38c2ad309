//go:build unix

package metamcp_test

import (
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/audit"
)

// TestCloseThatWaitsForNoChild kills the one that would go on to save its state, and
// does all the rest that an end has to do.
func TestCloseThatWaitsForNoChild(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "audit.jsonl")
	cfg := children(map[string][]string{"slow": {"--ignore-term", "--ignore-eof"}}, map[string]any{"audit": map[string]any{"file": file}})
	cfg["mcpServers"].(map[string]any)["slow"].(map[string]any)["stopGraceMs"] = 600_000
	e := openConfig(t, dir, cfg)
	if _, err := e.Execute(t.Context(), "slow", "echo", []byte(`{"text":"hello"}`), metamcp.ExecuteOptions{}); err != nil {
		t.Fatal(err)
	}
	st, err := e.HostStatus(t.Context(), false)
	if err != nil || len(st.Servers) != 1 || len(st.Servers[0].Instances) != 1 {
		t.Fatalf("the host is %+v: %v", st, err)
	}
	pid := st.Servers[0].Instances[0].PID
	journals := func() []string {
		found, err := filepath.Glob(filepath.Join(dir, ".metamcp", "run", "*.journal"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if len(journals()) != 1 {
		t.Fatalf("the journals of children are %q", journals())
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := e.Close(ctx); err == nil || !strings.HasPrefix(err.Error(), "not all children have ended") || strings.Contains(err.Error(), "\n") {
		t.Errorf("close: %v, want that the children have not ended and nothing else", err)
	}
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("the child is there still: %v", err)
	}
	if left := journals(); len(left) != 0 {
		t.Errorf("the journal of children is there still: %q", left)
	}
	var last audit.Kind
	for r, err := range audit.Records(file) {
		if err != nil {
			t.Fatal(err)
		}
		last = r.Kind
	}
	if last != audit.KindStop {
		t.Errorf("the audit log ends with %q", last)
	}
}
