//go:build unix

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/metamcp/metamcp/integration/clients"
	"github.com/metamcp/metamcp/integration/config"
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
			text, err := atTerminal(t, c.answer, "init", "cursor")
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

// atTerminal runs a command at a terminal whose user answers its question.
func atTerminal(t *testing.T, answer string, words ...string) (shown string, err error) {
	t.Helper()
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
				_, _ = person.WriteString(answer + "\n") // the command waits for it
			}
			if err != nil { // the other side is closed
				said <- all.String()
				return
			}
		}
	}()
	cmd := newRoot(io.Discard)
	cmd.SetArgs(words)
	cmd.SetIn(tty)
	cmd.SetOut(tty)
	err = cmd.ExecuteContext(t.Context())
	if closeErr := tty.Close(); err == nil {
		err = closeErr
	}
	shown = <-said
	if err := person.Close(); err != nil {
		t.Error(err)
	}
	return shown, err
}

// Empty parts of METAMCP_CONFIG name nothing, here as everywhere else. Those of --config, which
// the command line refuses, would not either.
func TestEmptyNamesOfFiles(t *testing.T) {
	home, _ := place(t)
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	own, a, b := filepath.Join(home, ".metamcp", "mcp.json"), filepath.Join(cwd, "a.json"), filepath.Join(home, "b.json")
	found := []string{filepath.Join(cwd, ".mcp.json"), own}
	list := string(filepath.ListSeparator)
	for _, c := range []struct {
		variable string
		flags    []string
		reads    []string // without --config
		target   string   // of import; "": it is refused
	}{
		{"", nil, found, own},
		{list, nil, found, own},
		{"a.json" + list, nil, []string{a}, a},
		{list + "~/b.json" + list + list, nil, []string{b}, b},
		{"a.json" + list + "~/b.json", nil, []string{a, b}, ""},
		{"a.json", []string{"~/b.json", ""}, []string{a}, b},
		{"", []string{""}, found, own},
	} {
		t.Setenv(config.FilesVariable, c.variable)
		cmd := &common{files: c.flags}
		s, err := cmd.setup()
		if err != nil {
			t.Fatal(err)
		}
		target, err := importTarget(s)
		if !slices.Equal(s.OwnFiles, c.reads) || target != c.target || (err == nil) != (c.target != "") {
			t.Errorf("%q and --config %q: metamcp reads %q, servers go to %q, %v", c.variable, c.flags, s.OwnFiles, target, err)
		}
		args := `"args":[]`
		if len(c.flags) > 1 {
			args = `"args":["--config","` + b + `"]`
		}
		if entry := cmd.entry(); !strings.Contains(entry, args) {
			t.Errorf("--config %q: a client is to be told %s", c.flags, entry)
		}
	}
}

// Who says no has used the command as it is meant.
func TestApproveAsks(t *testing.T) {
	emptyConfig(t)
	state := t.TempDir()
	listed(t, state, "git", [2]string{"a", "One."})
	listed(t, state, "git", [2]string{"a", "Two."})
	text, err := atTerminal(t, "n", "approve", "git", "--state-dir", state)
	if want := statusError(exitFailed); !errors.Is(err, want) || !strings.Contains(text, "Nothing was accepted.") {
		t.Errorf("%v\n%s", err, text)
	}
	if text, err = atTerminal(t, "y", "approve", "git", "--state-dir", state); err != nil || !strings.Contains(text, "accepted: 1 tool of git") {
		t.Errorf("%v\n%s", err, text)
	}
}

// What a hint tells the user to type reads the file that the command was given.
func TestHintsNameTheFile(t *testing.T) {
	home, cwd := place(t)
	put(t, filepath.Join(home, ".cursor", "mcp.json"), `{"mcpServers": {"s": {"command": "true"}}}`)
	put(t, filepath.Join(cwd, ".cursor", "mcp.json"), `{"mcpServers": {"ours": {"command": "true"}}}`)
	file := filepath.Join(home, "my servers.json")
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"init", "cursor", "--yes"}, "metamcp import --remove --config '" + file + "' moves"},
		{[]string{"import", "--yes"}, "metamcp import --remove --config '" + file + "' takes"},
		{[]string{"import", "cursor", "--project", "--yes"}, "metamcp import cursor --project --remove --config '" + file + "' takes"},
		{[]string{"add", "x", "--", "true"}, "metamcp test x --config '" + file + "'"},
	} {
		out, _, err := command(t, append([]string{"--config", file}, c.words...)...)
		if err != nil || !strings.Contains(out, c.want) {
			t.Errorf("%q: %v\n%s\nwant %s", c.words, err, out, c.want)
		}
	}
	t.Setenv("TMPDIR", filepath.Join(home, "missing"))
	if _, _, err := command(t, "--config", file, "add", "y", "--", "true"); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("without a folder for temporary files: %v", err)
	}
}

// What import writes is not always what metamcp reads in this folder.
func TestImportSaysWhatIsReadHere(t *testing.T) {
	home, _ := place(t)
	put(t, filepath.Join(home, ".cursor", "mcp.json"), `{"mcpServers": {"s": {"command": "true"}}}`)
	const says = "metamcp reads "
	if out, _, err := command(t, "import", "--dry-run"); err != nil || strings.Contains(out, says) {
		t.Errorf("%v\n%s", err, out)
	}
	put(t, ".mcp.json", `{"mcpServers": {}}`)
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	want := says + filepath.Join(cwd, ".mcp.json") + " here; use --config " + filepath.Join(home, ".metamcp", "mcp.json") + " for these servers.\n"
	if out, _, err := command(t, "import", "--yes"); err != nil || !strings.Contains(out, want) {
		t.Errorf("%v\n%s\nwant %s", err, out, want)
	}
	if out, _, err := command(t, "import", "--yes", "--config", ".mcp.json"); err != nil || strings.Contains(out, says) {
		t.Errorf("%v\n%s", err, out)
	}
}

// Clients that are started elsewhere read other files than metamcp does here.
func TestInitSaysWhatIsReadHere(t *testing.T) {
	home, _ := place(t)
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(home, ".metamcp", "mcp.json"), `{"mcpServers": {}}`)
	put(t, filepath.Join(home, "my servers.json"), `{"mcpServers": {}}`)
	const says = "metamcp reads "
	const elsewhere = " here, and clients that start elsewhere do not: metamcp init "
	for _, c := range []struct {
		variable, local string // METAMCP_CONFIG, and the text of ./.mcp.json
		words           []string
		want            string // ""; nothing is said
	}{
		{"", "", []string{"cursor"}, ""},
		{"", `{}`, []string{"cursor"}, says + cwd + "/.mcp.json" + elsewhere + "cursor --config " + cwd + "/.mcp.json\n"},
		{"", `{}`, []string{"cursor", "--config", ".mcp.json"}, ""},
		{"~/my servers.json", "", []string{"cursor", "--name", "mm"}, says + home + "/my servers.json" + elsewhere + "cursor --name mm --config '" + home + "/my servers.json'\n"},
		{"~/my servers.json", "", []string{"cursor", "--project"}, elsewhere + "cursor --project --config '"},
		{"~/.metamcp/mcp.json", `{}`, []string{"cursor"}, ""},
		{"~/.metamcp/mcp.json" + string(filepath.ListSeparator) + "a.json", "", []string{"cursor"}, " --config " + home + "/.metamcp/mcp.json --config " + cwd + "/a.json\n"},
	} {
		t.Setenv(config.FilesVariable, c.variable)
		for _, f := range []string{filepath.Join(home, ".cursor", "mcp.json"), filepath.Join(cwd, ".cursor", "mcp.json"), ".mcp.json"} {
			if err := os.RemoveAll(f); err != nil {
				t.Fatal(err)
			}
		}
		if c.local != "" {
			put(t, ".mcp.json", c.local)
		}
		out, _, err := command(t, append([]string{"init", "--yes"}, c.words...)...)
		if err != nil || !strings.Contains(out, "Restart the clients") || !strings.Contains(out, c.want) || c.want == "" && strings.Contains(out, says) {
			t.Errorf("%+v: %v\n%s", c, err, out)
		}
	}
}

// TestInitSaysThatClientsCannotStart: the entry is written all the same, since the file
// may come later.
func TestInitSaysThatClientsCannotStart(t *testing.T) {
	home, _ := place(t)
	broken, well := filepath.Join(home, "broken.json"), filepath.Join(home, "well.json")
	put(t, broken, "{")
	put(t, well, `{"mcpServers": {}}`)
	for file, said := range map[string]bool{broken: true, filepath.Join(home, "missing.json"): true, well: false} {
		out, _, err := command(t, "init", "cursor", "--yes", "--config", file)
		if err != nil || strings.Contains(out, "clients cannot start metamcp with this entry: ") != said {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}

// It is said before anything is written, and wherever an entry names no file: not only
// once it is too late for another answer.
func TestInitSaysBeforehandWhatIsReadHere(t *testing.T) {
	home, _ := place(t)
	file, elsewhere := filepath.Join(home, ".cursor", "mcp.json"), filepath.Join(home, "mine.json")
	put(t, elsewhere, `{"mcpServers": {}}`)
	t.Setenv(config.FilesVariable, elsewhere)
	want := "metamcp reads " + elsewhere + " here, and clients that start elsewhere do not: metamcp init cursor --config " + elsewhere
	fresh := func() { put(t, file, `{"mcpServers": {}}`) }
	for _, c := range []struct {
		before func()
		words  []string
		said   bool
		fails  bool
	}{
		{fresh, []string{"--dry-run"}, true, false},
		{fresh, []string{"--dry-run", "--json"}, true, false},
		{fresh, nil, true, true}, // nobody can be asked
		{fresh, []string{"--yes"}, true, false},
		{nil, nil, true, false}, // the entry of before is there
		{nil, []string{"--dry-run", "--config", elsewhere}, false, false},
		{nil, []string{"--yes", "--config", elsewhere}, false, false},
		{nil, nil, false, false}, // and now names the file
		{func() { put(t, file, `{"mcpServers": {"metamcp": {"command": "other"}}}`) }, nil, false, true},
		{func() {
			put(t, file, `{"mcpServers": {"metamcp": {"command": "/x/metamcp", "env": {"METAMCP_CONFIG": "a.json"}}}}`)
		}, []string{"--dry-run"}, false, false},
		{func() { put(t, file, `{"mcpServers": {"metamcp": {"command": "/x/metamcp"}}}`) }, []string{"--dry-run"}, true, false},
	} {
		if c.before != nil {
			c.before()
		}
		out, _, err := command(t, append([]string{"init", "cursor"}, c.words...)...)
		if (err != nil) != c.fails || strings.Count(out, want) != map[bool]int{true: 1}[c.said] {
			t.Errorf("%q: %v\n%s\nit is to be said: %t", c.words, err, out, c.said)
		}
	}
	fresh()
	text, err := atTerminal(t, "n", "init", "cursor")
	if said, asked := strings.Index(text, want), strings.Index(text, "[y/N]"); err != nil || said < 0 || asked < said {
		t.Errorf("%v\n%s\nwant the files before the question", err, text)
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

// What starts this program later has the path that stays when a package manager puts
// another version there: that in PATH.
func TestEntriesOutliveAnUpdate(t *testing.T) {
	home, _ := place(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(home, "bin", "metamcp")
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(home, ".cursor", "mcp.json"), `{"mcpServers": {}}`)
	c := &common{stderr: io.Discard}
	var doctor doctorFlags
	patient, err := c.patient(&doctor)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{"the hint at a terminal": c.entry(), "doctor": patient.Executable}
	for _, words := range [][]string{{"host", "install", "--dry-run"}, {"init", "cursor", "--dry-run"}} {
		out, _, err := command(t, words...)
		if err != nil {
			t.Errorf("%q: %v", words, err)
		}
		said[strings.Join(words, " ")] = out
	}
	for what, text := range said {
		if !strings.Contains(text, link) || strings.Contains(text, self) {
			t.Errorf("%s names another path than %s:\n%s", what, link, text)
		}
	}
	if !strings.Contains(terminalHint, "metamcp init") {
		t.Errorf("the hint at a terminal does not name metamcp init:\n%s", terminalHint)
	}
}
