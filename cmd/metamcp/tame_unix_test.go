//go:build unix

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// At a terminal nothing that a script says steers it; elsewhere every byte is
// as it was.
func TestScriptsDoNotSteerATerminal(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	cfg, script := filepath.Join(dir, "mcp.json"), filepath.Join(dir, "script.js")
	for file, text := range map[string]string{
		cfg:    `{"mcpServers": {}}`,
		script: `console.log("log\x1b[2J"); return "value\x1b]0;title\x07\x9b31m"`,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	exec := func(out io.Writer) {
		t.Helper()
		cmd := newRoot(io.Discard)
		cmd.SetArgs([]string{"exec", "--config", cfg, script})
		cmd.SetOut(out)
		cmd.SetErr(out)
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var plain bytes.Buffer
	exec(&plain)
	if want := "log\x1b[2J\nvalue\x1b]0;title\x07\u009b31m\n"; plain.String() != want {
		t.Errorf("not at a terminal: %q, want %q", &plain, want)
	}
	person, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer person.Close()
	said := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(person) // ends with an error where the other side is closed
		said <- string(all)
	}()
	exec(tty)
	if err := tty.Close(); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(<-said, "\r\n", "\n")
	if want := "log␛[2J\nvalue␛]0;title␇\ufffd31m\n"; text != want {
		t.Errorf("at a terminal: %q, want %q", text, want)
	}
}
