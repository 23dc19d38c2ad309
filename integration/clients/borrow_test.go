package clients

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// All ten clients' servers are taken in for a run, but for what the
// configuration has; no file is touched.
func TestBorrow(t *testing.T) {
	s, paths := machine(t)
	before := map[string]string{}
	for id, path := range paths {
		before[id] = read(t, path)
	}
	own := write(t, filepath.Join(s.Home, ".metamcp", "mcp.json"), `{"mcpServers": {
		"github": {"command": "mine"},
		"other-name": {"command": "uvx", "args": ["mcp-server-git"], "disabled": true}
	}}`, 0o600)
	servers, problems := s.Borrow([]string{own})
	if len(problems) != 0 {
		t.Errorf("%q", problems)
	}
	var names []string
	for _, b := range servers {
		names = append(names, b.Name)
		if b.From == "" || !strings.Contains(string(b.Text), `"`+b.Name+`": {`) {
			t.Errorf("%s of %q: %s", b.Name, b.From, b.Text)
		}
		if entries, _, err := ownEntries(b.Text); err != nil || len(entries) != 1 || entries[0].Name != b.Name {
			t.Errorf("%s: %v, %s", b.Name, err, b.Text)
		}
	}
	// The clients' github and git are not there: one by its name, the other by
	// its command.
	for _, gone := range []string{"github", "github-cursor", "git", "metamcp-old", "socket", "extension"} {
		if slices.Contains(names, gone) {
			t.Errorf("%s was taken in: %q", gone, names)
		}
	}
	for _, there := range []string{"files", "docs", "weather", "remote", "search", "linear", "local", "far", "py", "ag"} {
		if !slices.Contains(names, there) {
			t.Errorf("%s was not taken in: %q", there, names)
		}
	}
	for id, path := range paths {
		if read(t, path) != before[id] {
			t.Errorf("%s was changed", id)
		}
	}
	if exists(s.Backups) {
		t.Error("it made backups")
	}

	// A broken file takes no other down, and a configuration that is not there,
	// or is a client's file, is none of them.
	write(t, paths["cursor"], "{", 0o600)
	servers, problems = s.Borrow([]string{filepath.Join(s.Home, "none.json"), paths["gemini"]})
	names = nil
	for _, b := range servers {
		names = append(names, b.Name)
	}
	if len(problems) != 1 || !strings.Contains(problems[0], "Cursor") || !slices.Contains(names, "github") || slices.Contains(names, "py") {
		t.Errorf("%q, %q", problems, names)
	}
}
