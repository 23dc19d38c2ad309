package trust

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/metamcp/metamcp/integration/registry"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func contents(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestNewFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", FileName)
	p := Load(path)
	if p.Problem != "" || p.Note != "" || len(p.Trusted) != 2 || p.File != path {
		t.Fatalf("%+v", p)
	}
	if contents(t, path) != newFile {
		t.Error("another file was made")
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if perm := info.Mode().Perm(); runtime.GOOS != "windows" && perm != 0o600 {
		t.Errorf("permissions %v", perm)
	}
	if again := Load(path); len(again.Trusted) != 2 || again.Problem != "" {
		t.Errorf("read again: %+v", again)
	}
	// What cannot be looked at may hold anything.
	if p := Load(filepath.Join(write(t, ""), FileName)); p.Problem == "" || len(p.Trusted) != 0 {
		t.Errorf("below a file: %+v", p)
	}
	// Where none is and none can be made, the default counts.
	if runtime.GOOS == "linux" {
		if p := Load(filepath.Join("/proc/none", FileName)); p.Problem != "" || len(p.Trusted) != 2 || !strings.Contains(p.Note, "cannot be made") {
			t.Errorf("where nothing can be made: %+v", p)
		}
	}
}

func TestFilesOfTheSeedsForm(t *testing.T) {
	p := Load(write(t, "\ufeff[\n  \"@modelcontextprotocol/*\", // ours\n  \"@stripe/*\",\n]"))
	if p.Problem != "" || len(p.Trusted) != 2 || p.Threshold != Threshold {
		t.Errorf("%+v", p)
	}
}

// A file that is broken denies everything, and says where and why.
func TestBrokenFilesDenyAll(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"empty":               {"", "it is empty"},
		"white space":         {" \n", "it is empty"},
		"not JSON":            {"{\n  trusted: []\n}", "not JSON: line 2"},
		"cut":                 {`{"trusted": ["@modelcontextprotocol/*"`, "not JSON"},
		"a string":            {`"@modelcontextprotocol/*"`, "must be an object"},
		"null":                {`null`, "must be an object"},
		"unknown key":         {"{\n\"trusted\": [],\n\"block\": [\"@evil/*\"]}", `line 3: "block" is not known`},
		"case":                {`{"Trusted": []}`, `"Trusted" is not known`},
		"twice":               {`{"trusted": [], "trusted": ["@evil/*"]}`, "written twice"},
		"no list":             {`{"trusted": "@modelcontextprotocol/*"}`, "expected a list"},
		"a number":            {`{"trusted": ["@modelcontextprotocol/*", 7]}`, "expected a name in quotes"},
		"nested":              {`{"trusted": [["@modelcontextprotocol/*"]]}`, "expected a name in quotes"},
		"everything":          {`{"trusted": ["*"]}`, "only a whole namespace"},
		"every scope":         {`{"trusted": ["@*/*"]}`, "only a whole namespace"},
		"part of a scope":     {`{"trusted": ["@modelcontextprotocol/server-*"]}`, "only a whole namespace"},
		"a deep star":         {`{"trusted": ["@modelcontextprotocol/**"]}`, "only a whole namespace"},
		"all of PyPI":         {`{"trusted": ["pypi:mcp/*"]}`, "PyPI has no namespaces"},
		"a whole host":        {`{"trusted": ["oci:images.example/*"]}`, "name an owner"},
		"a host of bundles":   {`{"trusted": ["mcpb:https://bundles.example/*"]}`, "name an owner"},
		"no https":            {`{"trusted": ["remote:http://a.example/*"]}`, "no https address"},
		"an address":          {`{"trusted": ["https://a.example/x"]}`, "write remote:"},
		"unclear":             {`{"trusted": ["owner/image"]}`, "say what it is"},
		"look-alike":          {`{"trusted": ["@modelcontextprotоcol/*"]}`, "U+043E"},
		"hidden":              {`{"trusted": ["@modelcontextprotocol\u200b/*"]}`, "U+200B"},
		"threshold too low":   {`{"trusted": [], "threshold": 0.5}`, "from 0.9 to 1"},
		"threshold too high":  {`{"trusted": [], "threshold": 90}`, "from 0.9 to 1"},
		"threshold in quotes": {`{"trusted": [], "threshold": "0.95"}`, "from 0.9 to 1"},
		"UTF-16":              {"\xff\xfe[\x00]\x00", "UTF-16"},
		"nested deeply":       {strings.Repeat("[", 100_000), "nested too deeply"},
		"too large":           {`["` + strings.Repeat("x", maxFile) + `"]`, "larger than 1 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, tt.text)
			p := Load(path)
			if !strings.Contains(p.Problem, tt.want) || !strings.Contains(p.Problem, path) {
				t.Fatalf("problem %q, want %q in it", p.Problem, tt.want)
			}
			c := Candidate{Kind: registry.NPM, Package: "@modelcontextprotocol/server-everything"}
			if d := p.Decide(&c, Confidence{Value: 1, Exact: c.Package}, Asked); d.Allowed || d.Trusted || d.Gate != GateFile || !strings.Contains(d.Reason(), tt.want) {
				t.Errorf("%+v", d)
			}
			// Nor is it overwritten.
			if changed, err := Edit(t.Context(), path, TrustedList, entry(t, "@a/*"), false); err == nil || changed || contents(t, path) != tt.text {
				t.Errorf("changed %t, %v", changed, err)
			}
		})
	}
	t.Run("a folder", func(t *testing.T) {
		if p := Load(t.TempDir()); !strings.Contains(p.Problem, "it is no regular file") {
			t.Errorf("%+v", p)
		}
	})
	t.Run("a link to nothing", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), FileName)
		if err := os.Symlink(path+".gone", path); err != nil {
			t.Fatal(err)
		}
		if p := Load(path); !strings.Contains(p.Problem, "a link to nothing") {
			t.Errorf("%+v", p)
		}
	})
	if runtime.GOOS != "windows" {
		t.Run("open to everybody", func(t *testing.T) {
			path := write(t, newFile)
			if err := os.Chmod(path, 0o666); err != nil {
				t.Fatal(err)
			}
			if p := Load(path); !strings.Contains(p.Problem, "everybody on this machine may write") {
				t.Errorf("%+v", p)
			}
		})
	}
}

func TestEditKeepsEverythingElse(t *testing.T) {
	for _, tt := range []struct {
		name, before string
		which        List
		entry        string
		remove       bool
		after        string // "": unchanged
	}{
		{"add to the new file", newFile, TrustedList, "@a/*", false,
			strings.Replace(newFile, "\"@anthropic/*\"\n", "\"@anthropic/*\",\n    \"@a/*\"\n", 1)},
		{"block in the new file", newFile, BlockedList, "@a/b", false, strings.Replace(newFile, `"blocked": []`, `"blocked": ["@a/b"]`, 1)},
		{"what is there", newFile, TrustedList, "@anthropic/*", false, ""},
		{"what is there in another form", `["pypi:a-b"]`, TrustedList, "pypi:A_B", false, ""},
		{"behind a comment", "[\n\t\"@a/*\" // mine\n\t// more?\n]\n", TrustedList, "@b/*", false, "[\n\t\"@a/*\", // mine\n\t// more?\n\t\"@b/*\"\n]\n"},
		{"behind a comma", "[\n\t\"@a/*\", // mine\n]", TrustedList, "@b/*", false, "[\n\t\"@a/*\", // mine\n\t\"@b/*\"\n]"},
		{"in one line", `{"trusted": ["@a/*"]}`, TrustedList, "@b/*", false, `{"trusted": ["@a/*", "@b/*"]}`},
		{"into nothing", "[]", TrustedList, "@b/*", false, `["@b/*"]`},
		{"into a comment", "[\n  // none yet\n]", TrustedList, "@b/*", false, "[\n  // none yet\n  \"@b/*\"\n]"},
		{"into a file without lists", "{}", TrustedList, "@b/*", false, `{"trusted": ["@b/*"]}`},
		{"into a file with another list", "{\n  \"blocked\": [\"@x/*\"] // bad\n}\n", TrustedList, "@b/*", false, "{\n  \"blocked\": [\"@x/*\"], // bad\n  \"trusted\": [\"@b/*\"]\n}\n"},
		{"block in a plain list", "// mine\n[\"@a/*\" /* yes */]\n", BlockedList, "@a/b", false, "// mine\n{\"trusted\": [\"@a/*\" /* yes */], \"blocked\": [\"@a/b\"]}\n"},
		{"Windows lines", "\ufeff[\r\n  \"@a/*\"\r\n]\r\n", TrustedList, "@b/*", false, "\ufeff[\r\n  \"@a/*\",\r\n  \"@b/*\"\r\n]\r\n"},
		{"remove a line", "[\n  \"@a/*\",\n  \"@b/*\", // two\n  \"@c/*\"\n]", TrustedList, "@a/*", true, "[\n  \"@b/*\", // two\n  \"@c/*\"\n]"},
		{"remove and keep the comment", "[\n  \"@a/*\",\n  \"@b/*\", // two\n  \"@c/*\"\n]", TrustedList, "@b/*", true, "[\n  \"@a/*\",\n  // two\n  \"@c/*\"\n]"},
		{"remove the last", "[\n  \"@a/*\", // one\n  \"@c/*\"\n]", TrustedList, "@c/*", true, "[\n  \"@a/*\" // one\n]"},
		{"remove the last behind a comma", "[\n  \"@a/*\",\n  \"@c/*\",\n]", TrustedList, "@c/*", true, "[\n  \"@a/*\",\n]"},
		{"remove the only one", `{"trusted": ["@a/*"]}`, TrustedList, "@a/*", true, `{"trusted": []}`},
		{"remove all of them", `["@a/*", "npm:@a/*", "@b/*"]`, TrustedList, "@a/*", true, `["@b/*"]`},
		{"remove what is not there", newFile, TrustedList, "@b/*", true, ""},
		{"remove from the other list", `{"trusted": ["@a/*"], "blocked": ["@a/*"]}`, BlockedList, "@a/*", true, `{"trusted": ["@a/*"], "blocked": []}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := write(t, tt.before)
			changed, err := Edit(t.Context(), path, tt.which, entry(t, tt.entry), tt.remove)
			if err != nil {
				t.Fatal(err)
			}
			want := tt.after
			if want == "" {
				want = tt.before
			}
			if got := contents(t, path); got != want || changed != (tt.after != "") {
				t.Errorf("changed %t to\n%q, want\n%q", changed, got, want)
			}
		})
	}
}

func TestEditMakesAMissingFileAndFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "real.json"), filepath.Join(dir, FileName)
	if err := os.WriteFile(target, []byte("[]"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Edit(t.Context(), link, TrustedList, entry(t, "@a/*"), false); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 || contents(t, target) != `["@a/*"]` {
		t.Errorf("the link became %v, %v; what it points to %q", info, err, contents(t, target))
	}
	path := filepath.Join(dir, "new", FileName)
	if changed, err := Edit(t.Context(), path, TrustedList, entry(t, "@a/*"), false); err != nil || !changed || len(Load(path).Trusted) != 3 {
		t.Errorf("changed %t, %v; %+v", changed, err, Load(path))
	}
}

func TestEditsAtOnceLoseNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	const n = 12
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() {
			if _, err := Edit(t.Context(), path, TrustedList, entry(t, fmt.Sprintf("@scope%d/*", i)), false); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if p := Load(path); len(p.Trusted) != n+2 || p.Problem != "" {
		t.Errorf("%d entries: %+v", len(p.Trusted), p)
	}
}

// What was blocked while the file was missing stays so, whoever makes the file at that
// moment.
func TestNewFileReplacesNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	if _, err := Edit(t.Context(), path, BlockedList, entry(t, "@a/*"), false); err != nil {
		t.Fatal(err)
	}
	before := contents(t, path)
	// As of one that looked before the edit.
	if err := create(path); err != nil || contents(t, path) != before {
		t.Errorf("%v; it became %s", err, contents(t, path))
	}
	for range 20 {
		path := filepath.Join(t.TempDir(), FileName)
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() {
				if p := Load(path); p.Problem != "" || p.Note != "" || len(p.Trusted) != 2 {
					t.Errorf("%+v", p)
				}
			})
		}
		if _, err := Edit(t.Context(), path, BlockedList, entry(t, "@a/*"), false); err != nil {
			t.Error(err)
		}
		wait.Wait()
		if p := Load(path); len(p.Blocked) != 1 {
			t.Fatalf("the block is lost: %s", contents(t, path))
		}
	}
}

func TestEntries(t *testing.T) {
	for text, want := range map[string]string{
		"@a/*": "npm:@a/*", "@a/b": "npm:@a/b", "a": "npm:a", "\ta\n": "npm:a", "npm:a": "npm:a", "pypi:A__b.C": "pypi:a-b-c", "io.github.a/*": "server:io.github.a/*",
		"io.github.a/b": "server:io.github.a/b", "oci:owner/*": "oci:owner/*", "oci:host.example:5000/owner/image": "oci:host.example:5000/owner/image",
		"remote:https://A.example:443/": "remote:https://a.example", "remote:https://a.example/*": "remote:https://a.example/*", "mcpb:https://h.example/o/*": "mcpb:https://h.example/o/*",
	} {
		if e := entry(t, text); e.key() != want {
			t.Errorf("%q is %q, want %q", text, e.key(), want)
		}
	}
	for _, text := range []string{"", "@", "@a", "@a/", "@/b", "@A/b", "npm:@a/b/c", "npm:a/*", "a b", "remote:https://a.example/../b", "remote:https://a.example/%2e", "server:a/*", "oci:owner/image:tag", strings.Repeat("a", 3000)} {
		if e, err := ParseEntry(text); err == nil {
			t.Errorf("%q was taken: %+v", text, e)
		}
	}
}

func FuzzEdit(f *testing.F) {
	f.Add(newFile, "@a/*", false, false)
	f.Add("[\"@a/*\", // x\n]", "@a/*", true, true)
	f.Add("{\"trusted\": [/* a */ \"@a/*\" /* b */ , /* c */ \"@b/*\" /* d */]}", "@b/*", true, false)
	f.Fuzz(func(t *testing.T, text, name string, remove, block bool) {
		e, err := ParseEntry(name)
		if err != nil {
			return
		}
		d, err := parse([]byte(text))
		if err != nil {
			return
		}
		which := TrustedList
		if block {
			which = BlockedList
		}
		var next []byte
		if remove {
			next, err = d.removeAll(which, &e)
		} else {
			next = d.add(which, &e)
		}
		if err != nil {
			t.Fatal(err)
		}
		if next == nil {
			return
		}
		if err := d.verify(next, which, &e, remove); err != nil {
			t.Fatalf("%v\n%q\n%q", err, text, next)
		}
		now, err := parse(next)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(keys(now.list(which).entries), e.key()) == remove {
			t.Fatalf("%q", next)
		}
	})
}
