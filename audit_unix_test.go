//go:build unix

package metamcp_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/testkit"
)

// TestAuditLogThatCannotBeOpened is told, and keeps neither a call nor the end up.
func TestAuditLogThatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "audit.jsonl")
	if err := syscall.Mkfifo(file+".head", 0o600); err != nil {
		t.Fatal(err)
	}
	e := openConfig(t, dir, children(map[string][]string{"one": nil}, map[string]any{"audit": map[string]any{"file": file}}))
	if _, err := e.Execute(t.Context(), "one", "echo", []byte(`{"text":"hello"}`), metamcp.ExecuteOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		st, err := e.HostStatus(t.Context(), false)
		if err != nil {
			return err
		}
		if !strings.Contains(st.AuditProblem, file+".head") {
			return fmt.Errorf("the status says %q of the audit log", st.AuditProblem)
		}
		return nil
	})
	if err := e.Close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
}
