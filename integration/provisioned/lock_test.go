package provisioned

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// server is a server that could be kept, with a folder of its own.
func server(name, folder string) Locked {
	return Locked{
		Name: name, Folder: folder, Tree: "sha256-0", AllowedBy: APerson,
		Entry:  Entry{Command: "node", Args: []string{"x.js"}, Env: map[string]string{"KEY": "${KEY}"}},
		Source: Source{Kind: "npm", Package: name, Version: "1.0.0", Integrity: "sha512-x"},
	}
}

func keep(t *testing.T, l *Lock, s Locked) Locked {
	t.Helper()
	kept, fresh, err := l.Keep(t.Context(), s, nil)
	if err != nil || !fresh {
		t.Fatalf("keep %s: fresh %v, %v", s.Name, fresh, err)
	}
	return kept
}

func names(t *testing.T, l *Lock) []string {
	t.Helper()
	list, err := l.List()
	must(t, err)
	out := make([]string, len(list))
	for i := range list {
		out[i] = list[i].Name
	}
	return out
}

func TestKeepListRemove(t *testing.T) {
	l := Open(filepath.Join(t.TempDir(), "state"))
	if got, err := l.List(); err != nil || len(got) != 0 {
		t.Fatalf("without a file: %v, %v", got, err)
	}
	s := server("weather", "weather-1")
	s.Needs = []Need{{Name: "KEY", Place: InEnvironment, Required: true, Secret: true, Choices: []string{"a", "b"}}}
	s.Reason = "named <exactly> & trusted"
	kept := keep(t, l, s)
	if time.Since(kept.InstalledAt) > time.Minute {
		t.Errorf("installed at %v", kept.InstalledAt)
	}
	list, err := l.List()
	must(t, err)
	want, _ := json.Marshal(kept)
	got, _ := json.Marshal(list[0])
	if list[0].Name != "weather" || !bytes.Equal(got, want) {
		t.Errorf("read\n%s and not\n%s", got, want)
	}
	info, err := os.Stat(l.Path())
	must(t, err)
	if perm := info.Mode().Perm(); perm != 0o600 && os.PathSeparator == '/' {
		t.Errorf("the file has the mode %v", perm)
	}

	must(t, os.MkdirAll(filepath.Join(l.Servers(), "weather-1", "deep"), 0o700))
	gone, err := l.Remove(t.Context(), "weather")
	must(t, err)
	if gone.Folder != "weather-1" {
		t.Errorf("removed %+v", gone)
	}
	if _, err := os.Stat(filepath.Join(l.Servers(), "weather-1")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder is there: %v", err)
	}
	if _, err := l.Remove(t.Context(), "weather"); !errors.Is(err, ErrNotProvisioned) {
		t.Errorf("removed twice: %v", err)
	}
}

// A folder for data goes with the last server that has it, unless there is data in it.
func TestDropData(t *testing.T) {
	l := Open(t.TempDir())
	first, second := server("memory", "f1"), server("memory", "f2")
	second.Source.Version = "2.0.0"
	dir := l.DataDir(&first.Source)
	there := func() bool {
		l.DropData(t.Context(), &first.Source)
		_, err := os.Stat(dir)
		return err == nil
	}
	must(t, os.MkdirAll(dir, 0o700))
	keep(t, l, first)
	second = keep(t, l, second)
	_, err := l.Remove(t.Context(), "memory")
	must(t, err)
	if !there() {
		t.Error("the other version has lost it")
	}
	gone, err := l.SetAside(t.Context(), second.Name, time.Now())
	must(t, err)
	if !there() {
		t.Error("one that can be restored has lost it")
	}
	must(t, os.RemoveAll(gone.Dir()))
	must(t, os.WriteFile(filepath.Join(dir, "memory.jsonl"), []byte("remembered"), 0o600))
	if !there() {
		t.Error("data was deleted")
	}
	must(t, os.Remove(filepath.Join(dir, "memory.jsonl")))
	keep(t, l, first)
	if _, err := l.Remove(t.Context(), "memory"); err != nil || there() {
		t.Errorf("it stays: %v", err)
	}
}

func TestNamesBecomeUnique(t *testing.T) {
	l := Open(t.TempDir())
	first := server("x", "f1")
	keep(t, l, first)
	second := server("x", "f2")
	second.Source.Version = "2.0.0"
	kept, fresh, err := l.Keep(t.Context(), second, func(name string) bool { return name == "x-2" })
	if err != nil || !fresh || kept.Name != "x-3" {
		t.Errorf("kept as %q, %v, %v", kept.Name, fresh, err)
	}
	// The same server out of another folder is there already.
	again := server("x", "f4")
	kept, fresh, err = l.Keep(t.Context(), again, nil)
	if err != nil || fresh || kept.Name != "x" || kept.Folder != "f1" {
		t.Errorf("the same server was kept as %+v, %v, %v", kept, fresh, err)
	}
	if got := names(t, l); !slices.Equal(got, []string{"x", "x-3"}) {
		t.Errorf("there are %v", got)
	}
	// A long name has room for its number.
	long := server(strings.Repeat("a", maxName), "f5")
	keep(t, l, long)
	long.Folder, long.Source.Version = "f6", "3"
	if got := keep(t, l, long); len(got.Name) != maxName || !strings.HasSuffix(got.Name, "a-2") {
		t.Errorf("kept as %q", got.Name)
	}
}

// Where its folder is makes no server another one, wherever its entry names that.
func TestTheSameServerOutOfAnotherFolder(t *testing.T) {
	l := Open(t.TempDir())
	inFolder := func(folder string) Locked {
		s := server("x", folder)
		dir := l.Dir(&s)
		s.Entry = Entry{
			Command: filepath.Join(dir, "bin", "x"), Cwd: dir, Args: []string{"--lib", filepath.Join(dir, "lib")},
			Env: map[string]string{"LIB": filepath.Join(dir, "lib") + ":/usr/lib", "KEY": "${KEY}"},
		}
		return s
	}
	first := keep(t, l, inFolder("f1"))
	again, fresh, err := l.Keep(t.Context(), inFolder("f2"), nil)
	if err != nil || fresh || again.Folder != "f1" || again.Entry.Env["LIB"] != first.Entry.Env["LIB"] || !strings.Contains(again.Entry.Env["LIB"], l.Dir(&first)) {
		t.Errorf("the same server was kept as %+v, %v, %v", again, fresh, err)
	}
	other := inFolder("f3")
	other.Entry.Env["LIB"] = "/usr/lib"
	if kept := keep(t, l, other); kept.Name != "x-2" {
		t.Errorf("another one was kept as %+v", kept)
	}
}

// Everything that everybody keeps at once is there afterwards, each under a
// name of its own.
func TestManyKeepAtOnce(t *testing.T) {
	dir := t.TempDir()
	const many = 16
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			s := server("same", fmt.Sprintf("folder-%d", i))
			s.Source.Version = fmt.Sprint(i)
			if _, _, err := Open(dir).Keep(t.Context(), s, nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got := names(t, Open(dir))
	slices.Sort(got)
	if len(slices.Compact(got)) != many {
		t.Errorf("there are %d: %v", len(got), got)
	}
}

func TestHostileServersAreRefused(t *testing.T) {
	l := Open(t.TempDir())
	for _, change := range []struct {
		name string
		do   func(*Locked)
	}{
		{"a name that climbs", func(s *Locked) { s.Name = "../evil" }},
		{"a name with a separator", func(s *Locked) { s.Name = "a/b" }},
		{"a name with a space", func(s *Locked) { s.Name = "a b" }},
		{"a name with a line feed", func(s *Locked) { s.Name = "a\nb" }},
		{"no name", func(s *Locked) { s.Name = "" }},
		{"a long name", func(s *Locked) { s.Name = strings.Repeat("a", maxName+1) }},
		{"a device's name", func(s *Locked) { s.Name = "nul" }},
		{"a folder that climbs", func(s *Locked) { s.Folder = ".." }},
		{"a folder elsewhere", func(s *Locked) { s.Folder = "/etc" }},
		{"a folder below another", func(s *Locked) { s.Folder = "a/b" }},
		{"a folder without a hash", func(s *Locked) { s.Tree = "" }},
		{"a hash without a folder", func(s *Locked) { s.Folder = "" }},
		{"no command", func(s *Locked) { s.Entry.Command = "" }},
		{"a command and a url", func(s *Locked) { s.Entry.URL = "https://x.example" }},
		{"an argument with a line feed", func(s *Locked) { s.Entry.Args = []string{"a\nb"} }},
		{"a variable with a NUL", func(s *Locked) { s.Entry.Env = map[string]string{"A": "\x00"} }},
		{"no package", func(s *Locked) { s.Source.Package = "" }},
		{"nobody who allowed it", func(s *Locked) { s.AllowedBy = "" }},
	} {
		s := server("fine", "folder")
		change.do(&s)
		if _, _, err := l.Keep(t.Context(), s, nil); err == nil {
			t.Errorf("%s was kept", change.name)
		}
		// Nor is it believed where somebody wrote it into the file.
		text, err := format([]Locked{s})
		must(t, err)
		if _, err := Parse(text); err == nil {
			t.Errorf("%s was read", change.name)
		}
	}
	if _, err := os.Stat(l.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Error("a lock file was made")
	}
}

func TestABrokenFileIsLeftAsItIs(t *testing.T) {
	good, err := format([]Locked{server("a", "f")})
	must(t, err)
	for name, text := range map[string]string{
		"empty":            "",
		"no JSON":          "{",
		"half":             string(good[:len(good)/2]),
		"a list":           "[]",
		"another version":  `{"version": 2, "servers": {}}`,
		"no version":       `{"servers": {}}`,
		"an unknown key":   `{"version": 1, "servers": {}, "more": 1}`,
		"a wrong type":     `{"version": 1, "servers": []}`,
		"text behind it":   string(good) + "{}",
		"a server twice":   strings.Replace(string(good), `"a": {`, `"a": {"entry":{"command":"x"},"source":{"kind":"npm","package":"x"},"allowedBy":"x","installedAt":"2026-01-01T00:00:00Z"}, "a": {`, 1),
		"a key of nowhere": strings.Replace(string(good), `"tree"`, `"treee"`, 1),
		"a folder outside": strings.Replace(string(good), `"folder": "f"`, `"folder": "../f"`, 1),
		"an entry twice":   strings.Replace(string(good), `"entry": {`, `"entry": null, "entry": {`, 1),
		"a null":           `{"version": 1, "servers": {"a": null}}`,
	} {
		t.Run(name, func(t *testing.T) {
			l := Open(t.TempDir())
			must(t, os.WriteFile(l.Path(), []byte(text), 0o600))
			var broken *BrokenError
			if list, err := l.List(); !errors.As(err, &broken) || list != nil {
				t.Errorf("list: %v, %v", list, err)
			}
			if _, _, err := l.Keep(t.Context(), server("b", "g"), nil); !errors.As(err, &broken) {
				t.Errorf("keep: %v", err)
			}
			if _, err := l.Remove(t.Context(), "a"); !errors.As(err, &broken) {
				t.Errorf("remove: %v", err)
			}
			if now, err := os.ReadFile(l.Path()); err != nil || string(now) != text {
				t.Errorf("it was changed to %q, %v", now, err)
			}
		})
	}
}

func TestWhatIsNoFileIsBroken(t *testing.T) {
	var broken *BrokenError
	l := Open(t.TempDir())
	must(t, os.Mkdir(l.Path(), 0o700))
	if _, err := l.List(); !errors.As(err, &broken) {
		t.Errorf("a folder: %v", err)
	}
	must(t, os.Remove(l.Path()))
	if os.PathSeparator == '/' {
		must(t, os.Symlink("nowhere", l.Path()))
		if _, err := l.List(); !errors.As(err, &broken) {
			t.Errorf("a link to nothing: %v", err)
		}
		must(t, os.Remove(l.Path()))
		keep(t, l, server("a", "f"))
		must(t, os.Chmod(l.Path(), 0o666))
		if _, err := l.List(); !errors.As(err, &broken) {
			t.Errorf("a file that everybody writes: %v", err)
		}
	}
}

func TestALinkStaysALink(t *testing.T) {
	if os.PathSeparator != '/' {
		return
	}
	l := Open(t.TempDir())
	target := filepath.Join(t.TempDir(), "elsewhere.json")
	text, err := format(nil)
	must(t, err)
	must(t, os.WriteFile(target, text, 0o600))
	must(t, os.Symlink(target, l.Path()))
	keep(t, l, server("a", "f"))
	if info, err := os.Lstat(l.Path()); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info, err)
	}
	if text, err := os.ReadFile(target); err != nil || !strings.Contains(string(text), `"a"`) {
		t.Errorf("its target has %q, %v", text, err)
	}
}

func FuzzParse(f *testing.F) {
	good, err := format([]Locked{server("a", "f"), server("b", "g")})
	must(f, err)
	for _, seed := range []string{string(good), "", "{}", `{"version":1,"servers":{"a":{"entry":{"command":"x"}}}}`, `{"version":1,"servers":{"../a":null}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := Parse(text)
		if err != nil {
			return
		}
		l := Open("/state")
		for i := range list {
			s := &list[i]
			if dir := l.Dir(s); dir != "" && filepath.Dir(dir) != l.Servers() {
				t.Fatalf("the folder %q is elsewhere", dir)
			}
			if CheckName(s.Name) != nil {
				t.Fatalf("the name %q", s.Name)
			}
		}
		again, err := format(list)
		must(t, err)
		if back, err := Parse(again); err != nil || len(back) != len(list) {
			t.Fatalf("what was read cannot be written and read: %v", err)
		}
	})
}
