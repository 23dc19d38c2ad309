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

	"github.com/metamcp/metamcp/integration/clients"
)

// At a terminal it asks, and only a yes writes.
func TestInitAsks(t *testing.T) {
	const file = "{\n  \"mcpServers\": {}\n}\n"
	for _, c := range []struct {
		answer string
		writes bool
	}{{"y", true}, {"Yes", true}, {"", false}, {"no", false}} {
		t.Run("answer "+c.answer, func(t *testing.T) {
			home := t.TempDir()
			t.Setenv("HOME", home)
			t.Setenv("XDG_CONFIG_HOME", "")
			path := filepath.Join(home, ".cursor", "mcp.json")
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
				t.Fatal(err)
			}
			person, tty, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			if err := pty.Setsize(tty, &pty.Winsize{Rows: 40, Cols: 120}); err != nil {
				t.Fatal(err)
			}
			said := make(chan string, 1)
			go func() {
				var all bytes.Buffer
				buf := make([]byte, 1<<10)
				for asked := false; ; {
					n, err := person.Read(buf)
					all.Write(buf[:n])
					if !asked && strings.Contains(all.String(), "[y/N] ") {
						asked = true
						_, _ = person.WriteString(c.answer + "\n") // the command waits for it
					}
					if err != nil { // the other side is closed
						said <- all.String()
						return
					}
				}
			}()
			cmd := newRoot(io.Discard)
			cmd.SetArgs([]string{"init", "cursor"})
			cmd.SetIn(tty)
			cmd.SetOut(tty)
			err = cmd.ExecuteContext(t.Context())
			if closeErr := tty.Close(); err == nil {
				err = closeErr
			}
			text := <-said
			if err := person.Close(); err != nil {
				t.Error(err)
			}
			if err != nil || !strings.Contains(text, "Write this file? [y/N]") {
				t.Errorf("%v\n%s", err, text)
			}
			now, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if changed := string(now) != file; changed != c.writes || strings.Contains(text, "Nothing was written.") == c.writes {
				t.Errorf("changed: %t\n%s", changed, text)
			}
		})
	}
}

// An entry with one of the other commands, behind a flag, is no host.
func TestOtherCommandsAreNoHosts(t *testing.T) {
	for _, cmd := range newRoot(io.Discard).Commands() {
		if got := clients.Serves([]string{"--trace", cmd.Name()}); got != (cmd.Name() == "serve" || cmd.Hidden) {
			t.Errorf("%s is a host: %t", cmd.Name(), got)
		}
	}
}
