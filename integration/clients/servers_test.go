package clients

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// own is a Setup with a configuration of that text; "": there is none.
func ownFile(t *testing.T, text string) (*Setup, string) {
	t.Helper()
	s, _ := machine(t, "none")
	file := filepath.Join(s.Home, ".metamcp", "mcp.json")
	if text != "" {
		write(t, file, text, 0o640)
	}
	return s, file
}

func apply(t *testing.T, s *Setup, command string, changes []*Change, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	s.Apply(command, changes)
	for _, c := range Failed(changes) {
		t.Fatal(c.Problem)
	}
}

func added(t *testing.T, s *Setup, file string, servers ...*NewServer) *Change {
	t.Helper()
	c, err := s.PlanAdd(file, servers)
	apply(t, s, "add", []*Change{c}, err)
	noSecrets(t, []*Change{c})
	return c
}

var notes = &NewServer{Name: "notes", Command: "node", Args: []string{"x.js", "--a=<b>"}, Env: map[string]string{"B": "2", "A": "${A}"}, Cwd: "/srv", Description: "d", Tags: []string{"t"}}

func TestPlanAdd(t *testing.T) {
	const entry = `"command": "node", "args": ["x.js", "--a=<b>"], "env": {"A": "${A}", "B": "2"}, "cwd": "/srv", "description": "d", "tags": ["t"]`
	for _, c := range []struct{ name, before, after string }{
		{"one line", `{"mcpServers":{}}`, `{"mcpServers":{"notes": {` + entry + `}}}`},
		{"VS Code's key", `{"servers":{"a":{}}}`, `{"servers":{"a":{}, "notes": {` + entry + `}}}`},
		{"both keys", `{"servers":{"a":{}}, "mcpServers":{"b":{}}}`, `{"servers":{"a":{}}, "mcpServers":{"b":{}, "notes": {` + entry + `}}}`},
		{"another's keys stay", `{"x":[1,2.50], "mcpServers":{"b":{"odd":1e3}},}`, `{"x":[1,2.50], "mcpServers":{"b":{"odd":1e3}, "notes": {` + entry + `}},}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, file := ownFile(t, c.before)
			if added(t, s, file, notes); read(t, file) != c.after {
				t.Errorf("%s\nwant\n%s", read(t, file), c.after)
			}
			if c := added(t, s, file, notes); c.Status != StatusPresent {
				t.Errorf("the second time: %s", c.Status)
			}
		})
	}
	t.Run("comments, CRLF, BOM, tabs", func(t *testing.T) {
		const before = "\xef\xbb\xbf{\r\n\t// mine\r\n\t\"mcpServers\": {\r\n\t\t\"a\": {}, // first\r\n\t},\r\n}\r\n"
		s, file := ownFile(t, before)
		added(t, s, file, &NewServer{Name: "u", URL: "https://e.example/mcp", Type: "http", Headers: map[string]string{"X": "${X}"}})
		want := strings.Replace(before, "// first\r\n", "// first\r\n\t\t\"u\": {\r\n\t\t\t\"type\": \"http\",\r\n\t\t\t\"url\": \"https://e.example/mcp\",\r\n\t\t\t\"headers\": {\r\n\t\t\t\t\"X\": \"${X}\"\r\n\t\t\t}\r\n\t\t},\r\n", 1)
		if got := read(t, file); got != want {
			t.Errorf("%q\nwant\n%q", got, want)
		}
		changes, err := s.PlanRemove([]string{file}, []string{"u"})
		apply(t, s, "remove", changes, err)
		if got := read(t, file); got != before {
			t.Errorf("removed again: %q", got)
		}
	})
	t.Run("a new file is its owner's", func(t *testing.T) {
		s, file := ownFile(t, "")
		added(t, s, file, notes, &NewServer{Name: "second", Command: "x"})
		info, err := os.Stat(file)
		if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		if text := read(t, file); !strings.HasPrefix(text, "{\n  \"mcpServers\": {\n    \"notes\": {\n") || !strings.Contains(text, `"second"`) {
			t.Error(text)
		}
	})
	t.Run("a file that gets a secret is closed to others", func(t *testing.T) {
		s, file := ownFile(t, "{}")
		c := added(t, s, file, &NewServer{Name: "k", Command: "x", Env: map[string]string{"API_TOKEN": tokenValue}, Args: []string{"--password", plainSecret}})
		info, err := os.Stat(file)
		if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 || !strings.Contains(read(t, file), tokenValue) {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		if runtime.GOOS != "windows" && len(c.Notes) == 0 {
			t.Error("nobody is told of it")
		}
	})
	for _, c := range []struct{ name, before, problem string }{
		{"the name is taken", `{"mcpServers":{"notes":{"command":"other"}}}`, "has another server"},
		{"the name is taken by something odd", `{"mcpServers":{"notes":7}}`, "has another server"},
		{"not JSON", `{"mcpServers": hunter2hunter2`, "line 1"},
		{"no object", `[]`, "not an object"},
		{"servers that are none", `{"mcpServers":[]}`, "not an object"},
		{"UTF-16", "\xff\xfe{\x00}\x00", "UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, file := ownFile(t, c.before)
			_, err := s.PlanAdd(file, []*NewServer{notes})
			if err == nil || !strings.Contains(err.Error(), c.problem) || strings.Contains(err.Error(), argSecret) || read(t, file) != c.before {
				t.Errorf("%v\n%s", err, read(t, file))
			}
		})
	}
	s, file := ownFile(t, "{}")
	for _, bad := range []string{"", "a b", "../x", "a/b", "x\n", strings.Repeat("a", 65), "é"} {
		if _, err := s.PlanAdd(file, []*NewServer{{Name: bad, Command: "x"}}); err == nil {
			t.Errorf("the name %q", bad)
		}
	}
	if _, err := s.PlanAdd(file, []*NewServer{notes, notes}); err == nil {
		t.Error("two of one name")
	}
	if _, err := s.PlanAdd(file, []*NewServer{{Name: "self", Command: s.Executable}}); err == nil || !strings.Contains(err.Error(), "start itself") {
		t.Errorf("metamcp behind metamcp: %v", err)
	}
}

// What was typed in one folder means the same in every other.
func TestAnchor(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a${b")
	in := func(path string) string { return filepath.Join(escape(folder), path) }
	abs := t.TempDir()
	for name, c := range map[string]struct {
		typed, want NewServer
		notes       []string // what each of them holds
	}{
		"a folder":              {NewServer{Command: "node", Cwd: "."}, NewServer{Command: "node", Cwd: in("")}, []string{"working folder is written as " + in("")}},
		"a folder below":        {NewServer{Command: "./x", Args: []string{"./y"}, Cwd: "sub"}, NewServer{Command: "./x", Args: []string{"./y"}, Cwd: in("sub")}, []string{in("sub")}},
		"an absolute folder":    {NewServer{Command: "./x", Cwd: abs}, NewServer{Command: "./x", Cwd: abs}, nil},
		"the home folder":       {NewServer{Command: "~/x", Args: []string{"~/y"}}, NewServer{Command: "~/x", Args: []string{"~/y"}}, nil},
		"a folder there":        {NewServer{Command: "x", Cwd: "~/y"}, NewServer{Command: "x", Cwd: "~/y"}, nil},
		"variables":             {NewServer{Command: "${HOME}/x", Cwd: "${WORK}/y"}, NewServer{Command: "${HOME}/x", Cwd: "${WORK}/y"}, nil},
		"a command of a folder": {NewServer{Command: "./bin/x"}, NewServer{Command: in("bin/x")}, []string{"command is written as " + in("bin/x")}},
		"without a dot":         {NewServer{Command: "bin/x"}, NewServer{Command: in("bin/x")}, []string{"command"}},
		"a command of the PATH": {NewServer{Command: "node", Args: []string{"server.js", ".x", "-", ""}}, NewServer{Command: "node", Args: []string{"server.js", ".x", "-", ""}}, nil},
		"an absolute command":   {NewServer{Command: filepath.Join(abs, "x")}, NewServer{Command: filepath.Join(abs, "x")}, nil},
		"arguments": {
			NewServer{Command: "npx", Args: []string{"./work", ".", "--in=../x", "...", "a/b"}, Env: map[string]string{"DB": "./d.db", "SEP": "."}},
			NewServer{Command: "npx", Args: []string{"./work", ".", "--in=../x", "...", "a/b"}, Env: map[string]string{"DB": "./d.db", "SEP": "."}},
			[]string{"argument ./work is relative", "argument . is relative", "argument --in=../x is relative", "variable DB is relative"},
		},
		"a remote one": {NewServer{URL: "https://e.example", Type: "http"}, NewServer{URL: "https://e.example", Type: "http"}, nil},
	} {
		got := c.typed
		notes := got.Anchor(folder)
		if !reflect.DeepEqual(got, c.want) || len(notes) != len(c.notes) {
			t.Errorf("%s: %+v, %q", name, got, notes)
			continue
		}
		for i, n := range c.notes {
			if !strings.Contains(notes[i], n) {
				t.Errorf("%s: the note %q lacks %q", name, notes[i], n)
			}
		}
	}
}

func TestOfProject(t *testing.T) {
	s, _ := machine(t)
	for path, want := range map[string]bool{
		filepath.Join(s.Cwd, ".mcp.json"): true, filepath.Join(s.Cwd, ".cursor", "mcp.json"): true, filepath.Join(s.Cwd, "mcp.json"): false,
		filepath.Join(s.Home, ".mcp.json"): false, filepath.Join(s.Home, ".metamcp", "mcp.json"): false, "": false,
	} {
		if s.OfProject(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
	home := s.System
	home.Cwd = home.Home
	for path, want := range map[string]bool{filepath.Join(s.Home, ".mcp.json"): true, filepath.Join(s.Home, ".cursor", "mcp.json"): false} {
		if home.OfProject(path) != want {
			t.Errorf("in the home folder, %s: %v", path, !want)
		}
	}
}

func TestReadOnlyConfiguration(t *testing.T) {
	s, file := ownFile(t, "{}")
	if err := os.Chmod(file, 0o400); err != nil {
		t.Fatal(err)
	}
	c, err := s.PlanAdd(file, []*NewServer{notes})
	if err != nil || c.Status != StatusFailed || !strings.Contains(c.Problem, "read-only") {
		t.Errorf("%+v, %v", c, err)
	}
}

// Turned off and on again, a file is what it was.
func TestPlanSwitch(t *testing.T) {
	for name, text := range map[string]string{
		"one line":       `{"mcpServers":{"a":{"command":"x"}, "b":{}}}`,
		"empty entry":    `{"mcpServers":{"a":{}}}`,
		"lines":          "{\n  \"mcpServers\": {\n    \"a\": {\n      \"command\": \"x\", // why\n      \"env\": {\"API_KEY\": \"" + tokenValue + "\"}\n    }\n  }\n}\n",
		"trailing comma": "{\r\n\t\"servers\": {\r\n\t\t\"a\": {\r\n\t\t\t\"command\": \"x\",\r\n\t\t},\r\n\t},\r\n}",
		"in both keys":   `{"servers":{"a":{"url":"y"}}, "mcpServers":{"a":{"command":"x"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s, file := ownFile(t, text)
			changes, err := s.PlanSwitch([]string{file}, []string{"a", "a"}, true)
			apply(t, s, "disable", changes, err)
			noSecrets(t, changes)
			if off := read(t, file); !strings.Contains(off, `"disabled": true`) {
				t.Fatal(off)
			}
			changes, err = s.PlanSwitch([]string{file}, []string{"a"}, true)
			if err != nil || only(t, changes).Status != StatusPresent {
				t.Errorf("the second time: %v, %v", changes[0].Status, err)
			}
			changes, err = s.PlanSwitch([]string{file}, []string{"a"}, false)
			apply(t, s, "enable", changes, err)
			if got := read(t, file); got != text {
				t.Errorf("%q\nwant\n%q", got, text)
			}
			changes, err = s.PlanSwitch([]string{file}, []string{"a"}, false)
			if err != nil || only(t, changes).Status != StatusPresent {
				t.Errorf("it is on: %v", err)
			}
		})
	}
	s, file := ownFile(t, `{"mcpServers":{"a":7, "b":{"disabled":"yes"}, "c":{"disabled":false}}}`)
	if _, err := s.PlanSwitch([]string{file}, []string{"a"}, true); err == nil || !strings.Contains(err.Error(), "not an object") {
		t.Errorf("an entry that is none: %v", err)
	}
	changes, err := s.PlanSwitch([]string{file}, []string{"b", "c"}, true)
	if apply(t, s, "disable", changes, err); read(t, file) != `{"mcpServers":{"a":7, "b":{"disabled":true}, "c":{"disabled":true}}}` {
		t.Error(read(t, file))
	}
}

func TestPlanRemove(t *testing.T) {
	s, weak := ownFile(t, `{"mcpServers":{"a":1, "b":{}, "both":{}}}`)
	strong := write(t, filepath.Join(s.Home, "strong.json"), `{"mcpServers":{"both":{}, "c":{}}}`, 0o600)
	files := []string{weak, strong}
	changes, err := s.PlanRemove(files, []string{"both", "a"})
	apply(t, s, "remove", changes, err)
	if read(t, weak) != `{"mcpServers":{"b":{}, "both":{}}}` || read(t, strong) != `{"mcpServers":{"c":{}}}` {
		t.Errorf("%s\n%s", read(t, weak), read(t, strong))
	}
	_, err = s.PlanRemove(files, []string{"b", "nobody"})
	var unknown *NotThereError
	if !errors.As(err, &unknown) || unknown.Name != "nobody" || !strings.Contains(err.Error(), "b, both, c") {
		t.Errorf("%v", err)
	}
	if _, err = s.PlanRemove(files, []string{"bohh"}); err == nil || !strings.HasSuffix(err.Error(), "did you mean both?") {
		t.Errorf("%v", err)
	}
	if _, err = s.PlanRemove(nil, []string{"b"}); !errors.As(err, &unknown) || !strings.Contains(err.Error(), "no configuration file yet") {
		t.Errorf("%v", err)
	}
	if _, err = s.PlanRemove([]string{filepath.Join(s.Home, "none.json")}, []string{"b"}); !errors.As(err, &unknown) {
		t.Errorf("%v", err)
	}
}

// Each undo goes back by one change, and not past somebody else's.
func TestUndoLast(t *testing.T) {
	const text = `{"mcpServers":{}}`
	s, file := ownFile(t, text)
	added(t, s, file, notes)
	one := read(t, file)
	added(t, s, file, &NewServer{Name: "b", Command: "x"})
	for _, want := range []string{one, text} {
		changes, err := s.UndoLast("add", nil)
		if apply(t, s, "add", changes, err); read(t, file) != want {
			t.Errorf("%s\nwant\n%s", read(t, file), want)
		}
	}
	if changes, err := s.UndoLast("add", nil); err != nil || changes != nil {
		t.Errorf("there is nothing left: %v, %v", changes, err)
	}
	added(t, s, file, notes)
	changes, err := s.PlanSwitch([]string{file}, []string{"notes"}, true)
	apply(t, s, "disable", changes, err)
	if changes, err = s.UndoLast("add", nil); err != nil || !strings.Contains(only(t, changes).Problem, "metamcp disable --undo") {
		t.Errorf("%+v, %v", changes, err)
	}
	write(t, file, "{}", 0o600)
	if changes, err = s.UndoLast("disable", nil); err != nil || only(t, changes).Status != StatusFailed || read(t, file) != "{}" {
		t.Errorf("%+v, %v", changes, err)
	}
}

// TestUndoLastBesideAnotherFile: a file that is gone keeps nobody from undoing what was
// done in another, and of one that was changed it is said how.
func TestUndoLastBesideAnotherFile(t *testing.T) {
	const text = `{"mcpServers":{}}`
	s, file := ownFile(t, text)
	added(t, s, file, notes)
	other := filepath.Join(s.Home, "other.json")
	write(t, other, text, 0o600)
	added(t, s, other, notes)
	write(t, other, "{}", 0o600)
	changes, err := s.UndoLast("add", nil)
	if c := only(t, changes); err != nil || c.File != other || !strings.HasSuffix(c.Problem, "of another file is taken back by metamcp add --undo --config "+file) {
		t.Errorf("%+v, %v", c, err)
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	changes, err = s.UndoLast("add", nil)
	if apply(t, s, "add", changes, err); read(t, file) != text {
		t.Errorf("%s", read(t, file))
	}
	if changes, err = s.UndoLast("add", []string{other}); err != nil || only(t, changes).Status != StatusFailed {
		t.Errorf("%+v, %v", changes, err)
	}
}

// What can be undone does not grow for ever, and leaves other commands' alone.
func TestOldEditsAreForgotten(t *testing.T) {
	s, file := ownFile(t, `{"mcpServers":{"a":{}}}`)
	s.Apply("import", []*Change{mustAdd(t, s, file, "imported")})
	for i := range keptEdits + 5 {
		s.Apply("add", []*Change{mustAdd(t, s, file, fmt.Sprint("n", i))})
	}
	all, err := s.records()
	if err != nil || len(all) != keptEdits+1 || all[len(all)-1].Command != "import" {
		t.Errorf("%d are kept, %v", len(all), err)
	}
}

// Edits from before the clock went back are dated after now, and give way to what is
// done now: that can be undone, and they after it.
func TestEditsFromBeforeTheClockWentBack(t *testing.T) {
	s, file := ownFile(t, `{"mcpServers":{"a":{}}}`)
	var texts []string // before each of them
	for i := range keptEdits {
		texts = append(texts, read(t, file))
		s.Apply("add", []*Change{mustAdd(t, s, file, fmt.Sprint("n", i))})
	}
	all, err := s.records()
	if err != nil {
		t.Fatal(err)
	}
	texts = append(texts, read(t, file))
	for _, r := range all {
		old := filepath.Join(s.Backups, r.name)
		text := read(t, old+recordSuffix)
		r.Time = r.Time.AddDate(1, 0, 0)
		at, err := r.Time.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		text = regexp.MustCompile(`"time": "[^"]+"`).ReplaceAllLiteralString(text, `"time": `+string(at))
		_, rest, _ := strings.Cut(r.name, "-")
		later := filepath.Join(s.Backups, r.Time.Format("20060102T150405.000000000Z")+"-"+rest)
		write(t, later+recordSuffix, text, 0o600)
		if err := errors.Join(os.Remove(old+recordSuffix), os.Rename(old+copySuffix, later+copySuffix)); err != nil {
			t.Fatal(err)
		}
	}
	s.Apply("add", []*Change{mustAdd(t, s, file, "now")})
	for _, want := range []string{texts[keptEdits], texts[keptEdits-1]} {
		changes, err := s.UndoLast("add", nil)
		if apply(t, s, "add", changes, err); read(t, file) != want {
			t.Errorf("%s\nwant\n%s", read(t, file), want)
		}
	}
}

func mustAdd(t *testing.T, s *Setup, file, name string) *Change {
	t.Helper()
	c, err := s.PlanAdd(file, []*NewServer{{Name: name, Command: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Of several that add at once, none loses what another has written.
func TestExclusive(t *testing.T) {
	s, file := ownFile(t, "{}")
	const many = 12
	var all sync.WaitGroup
	errs := make([]error, many)
	for i := range many {
		all.Go(func() {
			errs[i] = s.Exclusive(t.Context(), func() error {
				c, err := s.PlanAdd(file, []*NewServer{{Name: fmt.Sprint("n", i), Command: "x"}})
				if err == nil {
					s.Apply("add", []*Change{c})
				}
				return err
			})
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for i := range many {
		if !strings.Contains(read(t, file), fmt.Sprintf("%q", fmt.Sprint("n", i))) {
			t.Errorf("n%d was lost", i)
		}
	}
}

func TestPlainSecrets(t *testing.T) {
	for _, c := range []struct {
		server NewServer
		want   string
	}{
		{NewServer{Command: "npx", Args: []string{"-y", "@scope/server@1.2.3", "/data", "--port", "8080"}, Env: map[string]string{"LEVEL": "debug", "KEY_FILE": "/etc/key"}}, ""},
		{NewServer{Command: "x", Env: map[string]string{"API_KEY": "${API_KEY}", "B_TOKEN": "${secret:B}", "C_TOKEN": "${C:-}"}, Args: []string{"--token", "${T}", "--header=Authorization: Bearer ${T}"}}, ""},
		{NewServer{Command: "x", Env: map[string]string{"API_KEY": plainSecret}}, "the value of the variable API_KEY"},
		{NewServer{Command: "x", Env: map[string]string{"URL": "postgres://user:" + argSecret + "@host/db"}}, "the value of the variable URL"},
		{NewServer{Command: "x", Args: []string{"-v", "--api-key", argSecret}}, "argument 3"},
		{NewServer{Command: "x", Args: []string{"--api-key=" + argSecret}}, "argument 1"},
		{NewServer{Command: "x", Args: []string{tokenValue}}, "argument 1"},
		{NewServer{URL: "https://e.example/mcp?api_key=" + argSecret}, "a part of the url"},
		{NewServer{URL: "https://e.example/mcp", Headers: map[string]string{"Authorization": "Bearer " + argSecret}}, "the value of the header Authorization"},
		{NewServer{URL: "https://e.example/mcp", Headers: map[string]string{"Authorization": "Bearer ${T}", "Accept": "application/json"}}, ""},
	} {
		var got []string
		for _, p := range c.server.PlainSecrets() {
			got = append(got, p.String())
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%+v: %q, want %q", c.server, got, c.want)
		}
	}
}

// A configuration that no host would read is not worked on.
func TestConfigurationThatIsTooLarge(t *testing.T) {
	text := `{"mcpServers": {"a": {"command": "` + strings.Repeat("x", 17<<20) + `"}}}`
	s, file := ownFile(t, text)
	_, err := s.PlanAdd(file, []*NewServer{{Name: "b", Command: "b"}})
	if err == nil || !strings.Contains(err.Error(), "larger than 16 MiB") || !strings.Contains(err.Error(), "--config") {
		t.Errorf("%v", err)
	}
	if _, err := s.PlanImport(ImportOptions{Target: file}); err == nil || !strings.Contains(err.Error(), "larger than 16 MiB") {
		t.Errorf("import: %v", err)
	}
}
