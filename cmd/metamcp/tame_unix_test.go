//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/messages"
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
	text := printedAtTerminal(t, exec)
	if want := "log␛[2J\nvalue␛]0;title␇\ufffd31m\n"; text != want {
		t.Errorf("at a terminal: %q, want %q", text, want)
	}
}

// printedAtTerminal returns what is printed to a terminal.
func printedAtTerminal(t *testing.T, show func(out io.Writer)) string {
	t.Helper()
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
	show(tty)
	if err := tty.Close(); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(<-said, "\r\n", "\n")
}

// JSON leaves control characters above ASCII and those that turn the direction of a
// text as they are. At a terminal they are taken out, and it stays JSON.
func TestJSONDoesNotSteerATerminal(t *testing.T) {
	const evil = "a\u009b2Jb\u202ec"
	dir := t.TempDir()
	cfg := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(cfg, []byte(`{"mcpServers": {"x": {"command": "true", "description": "`+evil+`"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	h := &tracingHost{fakeHost: newFakeHost(dir), attached: make(chan struct{}, 10), records: []messages.TraceRecord{
		{V: 2, Time: time.Now(), Kind: "spawn", From: "metamcp", Detail: evil},
	}}
	h.status.Servers[0].Error.Message = evil
	s, err := control.Serve(control.Options{StateDir: dir, Name: "work", Version: "1.2.3", Host: h})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endFake(t, s) })
	for _, line := range []string{"list --json", "status --json", "trace work --lines --json --for 1h"} {
		show := func(out io.Writer) {
			t.Helper()
			cmd := newRoot(io.Discard)
			cmd.SetArgs(append(strings.Fields(line), "--config", cfg, "--state-dir", dir))
			cmd.SetOut(out)
			cmd.SetErr(io.Discard)
			if err := cmd.ExecuteContext(t.Context()); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		var plain bytes.Buffer
		show(&plain)
		if !strings.Contains(plain.String(), evil) {
			t.Errorf("%s, not at a terminal: %q", line, &plain)
		}
		text := printedAtTerminal(t, show)
		if strings.ContainsAny(text, "\u009b\u202e") || !strings.Contains(text, "a\ufffd2Jb\ufffdc") {
			t.Errorf("%s, at a terminal: %q", line, text)
		}
		var err error
		for values := json.NewDecoder(strings.NewReader(text)); err == nil; {
			var value any
			err = values.Decode(&value)
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s, at a terminal, is no JSON: %v", line, err)
		}
	}
}
