//go:build unix

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// Who sits at a terminal that a command reads is told so, and what ends it.
func TestReadingATerminalIsSaid(t *testing.T) {
	emptyConfig(t)
	t.Setenv("HOME", t.TempDir())
	for words, said := range map[string]string{
		"call demo echo -": "reading the arguments, one JSON object, from this terminal; Ctrl-D", "exec -": "reading the script from this terminal; Ctrl-D", "trace -": "reading the trace from this terminal; Ctrl-D",
	} {
		person, tty, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := person.WriteString("\x04"); err != nil { // Ctrl-D
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		root := newRoot(&stderr)
		root.SetErr(&stderr)
		root.SetIn(tty)
		root.SetArgs(strings.Fields(words))
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(stderr.String(), said) {
			t.Errorf("%s: %v\n%s", words, err, &stderr)
		}
		if err := tty.Close(); err != nil {
			t.Error(err)
		}
		if err := person.Close(); err != nil {
			t.Error(err)
		}
		stderr.Reset()
		root = newRoot(&stderr)
		root.SetErr(&stderr)
		root.SetIn(strings.NewReader(""))
		root.SetArgs(strings.Fields(words))
		if err := root.ExecuteContext(t.Context()); err == nil || strings.Contains(stderr.String(), "reading") {
			t.Errorf("%s, not at a terminal: %v\n%s", words, err, &stderr)
		}
	}
}
