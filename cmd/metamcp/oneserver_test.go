package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A command about one server says nothing of what is wrong with others, and of
// one that nobody knows where it looked.
func TestCommandAboutOneServer(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(oneServer{"mine", slog.NewTextHandler(&out, nil)})
	log.Error("a", "server", "other")
	log.With("server", "other").Error("b")
	log.WithGroup("g").Error("c", "server", "other")
	log.Error("d", "server", "mine")
	log.With("x", 1).Error("e")
	for _, said := range []string{"msg=d", "msg=e"} {
		if !strings.Contains(out.String(), said) {
			t.Errorf("%s is not in %s", said, out.String())
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 2 {
		t.Errorf("%d lines, want 2: %s", n, out.String())
	}

	dir := t.TempDir()
	file := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers": {"broken": {"command": "x", "env": {"A": "${NOBODY_SET_THIS}"}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	root := newRoot(&stderr)
	root.SetOut(&stderr)
	root.SetArgs([]string{"call", "none", "echo", "--config", file, "--state-dir", filepath.Join(dir, "state")})
	err := root.ExecuteContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), file) || strings.Contains(stderr.String(), "NOBODY_SET_THIS") {
		t.Errorf("%v; stderr %s", err, stderr.String())
	}
}

// What is wrong with an entry stands in the answer, and not in the log as well; what is
// wrong with a setting stands there alone.
func TestABrokenEntryIsSaidOnce(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	file := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers": {"b": {"args": ["x"]}}, "metamcp": {"pool": {"poolSize": "x"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"discover", "discover word", "discover --server b", "call b x"} {
		var out, log bytes.Buffer
		root := newRoot(&log)
		root.SetOut(&out)
		root.SetArgs(append(strings.Fields(words), "--config", file))
		if err := root.ExecuteContext(t.Context()); err != nil {
			out.WriteString(err.Error())
		}
		if n := strings.Count(out.String(), "neither a command nor a url"); n != 1 || strings.Contains(log.String(), "neither") || !strings.Contains(log.String(), "poolSize") {
			t.Errorf("%s: the answer says it %d times\n%s\nand the log\n%s", words, n, &out, &log)
		}
	}
}
