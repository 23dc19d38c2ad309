package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whoever revokes the last token is told that the next host lets all programs in.
func TestLastTokenIsRemoved(t *testing.T) {
	dir := t.TempDir()
	cfg := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(cfg, []byte(`{"mcpServers": {}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	token := func(words ...string) string {
		var out bytes.Buffer
		cmd := newRoot(&out)
		cmd.SetArgs(append(append([]string{"token"}, words...), "--config", cfg, "--state-dir", filepath.Join(dir, "state")))
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatalf("%v: %v", words, err)
		}
		return out.String()
	}
	token("add", "one")
	token("add", "two")
	if said := token("remove", "one"); strings.Contains(said, "no token is left") {
		t.Errorf("one of two: %s", said)
	}
	if said := token("remove", "two"); !strings.Contains(said, "no token is left") {
		t.Errorf("the last one: %s", said)
	}
}
