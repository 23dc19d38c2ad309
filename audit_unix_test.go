//go:build unix

package metamcp_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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

// TestArgumentsMayBeReused: a program may write its next arguments where the last were,
// once it has the result. The audit log, which is behind, has what was sent.
func TestArgumentsMayBeReused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "audit.jsonl")
	e := openConfig(t, dir, children(map[string][]string{"one": nil}, map[string]any{"audit": map[string]any{"file": file}}))
	args := []byte(`{"text":"0"}`)
	const calls = 10
	for i := range calls {
		args[9] = '0' + byte(i)
		r, err := e.Execute(t.Context(), "one", "echo", args, metamcp.ExecuteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(r.Raw), fmt.Sprintf(`"%d"`, i)) {
			t.Errorf("call %d got %s", i, r.Raw)
		}
	}
	if err := e.Close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
	log, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	hashes := map[string]bool{}
	for _, hash := range regexp.MustCompile(`"argsHash":"[0-9a-f]+"`).FindAllString(string(log), -1) {
		hashes[hash] = true
	}
	if len(hashes) != calls {
		t.Errorf("the audit log has %d different arguments, want %d:\n%s", len(hashes), calls, log)
	}
}
