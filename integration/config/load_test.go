package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

func TestLoadWholeFile(t *testing.T) {
	w := newWorld(t, "TOKEN=s3cret")
	cfg := w.load(`// a comment first
{
  "$schema": "x", "inputs": [],
  "mcpServers": {
    "local": {"command": "npx", "args": ["-y", "pkg",], "env": {"B": "2", "A": "${TOKEN}"}, "cwd": "~/work"},
    /* remote */
    "remote": {"url": "https://example.com/mcp", "headers": {"X-Key": "Bearer ${env:TOKEN}"},
      "oauth": {"clientId": "a", /* c */ "clientSecret": "${TOKEN}",}},
  },
  "servers": {"old": {"type": "sse", "url": "http://localhost:1/sse", "disabled": true}},
  "metamcp": {"pool": {"poolSize": 7, "idleTimeoutMs": 1000}, "scrub": false, "trace": true,
    "toolRules": [{"pattern": "a*", "enabled": false}, {"pattern": ["/x/i", "!y"], "server": "local", "tags": ["t"]}]},
} // the end`)
	clean(t, cfg)
	if len(cfg.Servers) != 3 {
		t.Fatalf("%d servers", len(cfg.Servers))
	}
	local, remote, old := cfg.Server("local"), cfg.Server("remote"), cfg.Server("old")
	if local.Transport != messages.TransportStdio || local.Command != "npx" || strings.Join(local.Args, " ") != "-y pkg" ||
		local.Cwd != filepath.Join(w.home, "work") || strings.Join(local.Env, " ") != "A=s3cret B=2 PATH=/bin" {
		t.Errorf("local is %+v", local)
	}
	if want := filepath.Join(w.cwd, "test.json") + ":5"; local.Source != want {
		t.Errorf("source is %s, want %s", local.Source, want)
	}
	if local.Timeout != defaultTimeout || local.MaxTimeout != defaultMaxTimeout || local.StartupTimeout != defaultDownloadTimeout ||
		local.MaxInstances != 1 || local.Retry != messages.RetrySafe || local.Lifecycle != messages.LifecycleDefault {
		t.Errorf("defaults are %+v", local)
	}
	if remote.Transport != messages.TransportHTTP || remote.Headers["X-Key"] != "Bearer s3cret" || remote.Env != nil {
		t.Errorf("remote is %+v", remote)
	}
	if got := remote.OAuth; got == nil || got.ClientID != "a" || got.ClientSecret != "s3cret" {
		t.Errorf("oauth is %+v", got)
	}
	if old.Transport != messages.TransportSSE || !old.Disabled {
		t.Errorf("old is %+v", old)
	}
	s := cfg.Settings
	if s.Pool.PoolSize != 7 || s.Pool.IdleTimeout.Milliseconds() != 1000 || s.Scrub || s.Trace != "stderr" || len(s.ToolRules) != 2 ||
		*s.ToolRules[0].Enabled || s.ToolRules[1].Enabled != nil || s.ToolRules[1].Pattern[1] != "!y" {
		t.Errorf("settings are %+v", s)
	}
	if s.StateDir != filepath.Join(w.home, ".metamcp") || s.TrustFile != filepath.Join(s.StateDir, "trusted-servers.json") ||
		s.Audit.File != filepath.Join(s.StateDir, "audit.jsonl") {
		t.Errorf("paths are %s, %s, %s", s.StateDir, s.TrustFile, s.Audit.File)
	}
}

func TestWhichFile(t *testing.T) {
	one := func(name string) string { return `{"mcpServers": {"` + name + `": {"command": "x"}}}` }
	w := newWorld(t)
	cfg, err := Load(w.sources())
	if err != nil || len(cfg.Servers) != 0 || len(cfg.Files) != 0 {
		t.Fatalf("nothing there: %+v, %v", cfg, err)
	}
	contains(t, texts(cfg.Warnings), "no configuration file", ".mcp.json", "mcp.json", "--config")

	home := filepath.Join(w.home, ".metamcp", "mcp.json")
	if err := os.MkdirAll(filepath.Dir(home), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(home, []byte(one("home")), 0o600); err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		want string
		do   func()
	}{
		{"home", func() {}},
		{"cwd", func() { w.file(".mcp.json", one("cwd")) }},
		{"variable", func() { w.file("v.json", one("variable")); w.env = append(w.env, FilesVariable+"=v.json") }},
	}
	for _, s := range steps {
		s.do()
		if cfg, err = Load(w.sources()); err != nil || len(cfg.Servers) != 1 || cfg.Servers[0].Name != s.want {
			t.Fatalf("want %s: %+v, %v", s.want, cfg, err)
		}
	}
	if cfg, err = Load(w.sources(w.file("flag.json", one("flag")))); err != nil || cfg.Servers[0].Name != "flag" {
		t.Fatalf("%+v, %v", cfg, err)
	}
}

func TestLaterFilesOverride(t *testing.T) {
	w := newWorld(t)
	a := w.file("a.json", `{"mcpServers": {"x": {"url": "https://a.example", "oauth": {"clientId": "a"}}, "y": {"command": "a"}}, "metamcp": {"scrub": false, "pool": {"poolSize": 3}}}`)
	b := w.file("b.json", `{"mcpServers": {"x": {"command": "b"}}, "metamcp": {"pool": {"poolSize": 4}}}`)
	cfg, err := Load(w.sources(a, b))
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Servers) != 2 || cfg.Servers[0].Command != "b" || cfg.Server("x").Command != "b" || cfg.Server("x").OAuth != nil {
		t.Errorf("servers are %+v", cfg.Servers)
	}
	if cfg.Settings.Pool.PoolSize != 4 || cfg.Settings.Scrub {
		t.Errorf("settings are %+v", cfg.Settings)
	}
	contains(t, texts(cfg.Warnings), a+":1", b+":1", "overrides", `"x"`)
	if len(cfg.Warnings) != 1 {
		t.Errorf("warnings are %s", texts(cfg.Warnings))
	}
}

// Rules of two files do not add up, and what the first one closes may be open.
func TestLaterToolRulesReplaceEarlierOnes(t *testing.T) {
	w := newWorld(t)
	a := w.file("a.json", `{"mcpServers": {}, "metamcp": {"toolRules": [{"pattern": "delete_*", "enabled": false}]}}`)
	b := w.file("b.json", `{"mcpServers": {}, "metamcp": {"toolRules": [{"pattern": "read_*", "tags": ["r"]}]}}`)
	none := w.file("none.json", `{"mcpServers": {}, "metamcp": {"toolRules": []}}`)
	without := w.file("without.json", `{"mcpServers": {}, "metamcp": {"toolRules": null, "scrub": true}}`)
	for _, c := range []struct {
		files    []string
		rules    int
		warnings []string // what each of them says
	}{
		{[]string{a, b}, 1, []string{b + ":1:45: metamcp.toolRules: these rules replace all those at " + a + ":1"}},
		{[]string{a, none}, 0, []string{none + ":1:45: metamcp.toolRules: these rules replace all those at " + a + ":1"}},
		{[]string{a, without, b}, 1, []string{a + ":1"}},
		{[]string{a, b, none}, 0, []string{a + ":1", b + ":1 ("}},
		{[]string{none, a, without}, 1, nil},
	} {
		cfg, err := Load(w.sources(c.files...))
		must(t, err)
		if len(cfg.Settings.ToolRules) != c.rules || len(cfg.Warnings) != len(c.warnings) {
			t.Errorf("%q: %d rules, warnings %s", c.files, len(cfg.Settings.ToolRules), texts(cfg.Warnings))
			continue
		}
		for i, want := range c.warnings {
			contains(t, cfg.Warnings[i].String(), want)
		}
	}
}

func TestDuplicateNames(t *testing.T) {
	w := newWorld(t)
	cfg := w.load("{\"mcpServers\": {\n\"x\": {\"command\": \"first\"},\n\"x\": {\"command\": \"second\"}},\n\"servers\": {\"x\": {\"command\": \"third\"}}}")
	if len(cfg.Servers) != 1 || cfg.Servers[0].Command != "third" {
		t.Errorf("servers are %+v", cfg.Servers)
	}
	contains(t, texts(cfg.Warnings), "line 2 and in line 3", "line 3 and in line 4", "the last one counts")
	cfg = w.load(`{"mcpServers": {"x": {"command": "a", "command": "b", "command": null}}}`)
	if cfg.Server("x").Command != "b" {
		t.Errorf("command is %s", cfg.Server("x").Command)
	}
	contains(t, texts(cfg.Warnings), "command is written twice")
}

func TestFilesThatFailTheLoad(t *testing.T) {
	tests := []struct{ name, text, position, message string }{
		{"empty", "", ":1:1", "empty"},
		{"blank", "\n\n", ":1:1", "empty"},
		{"open", "{\n \"a\": {", ":2:8", "ends too early"},
		{"open string", "{\n  \"a", ":2:", "ends too early"},
		{"garbage", "{\n  \"é\" 1}", ":2:7", "after object name"},
		{"array", "\n [1]", ":2:2", "expected an object, found an array"},
		{"scalar", "17", ":1:1", "found a number"},
		{"two values", "{} {}", ":1:4", "after top-level value"},
		{"bad escape", `{"mcpServers": {"a": {"command": "C:\Users\secret"}}}`, ":1:34", "not a JSON value"},
		{"utf-16", "\xff\xfe{\x00}\x00", ":1:1", "UTF-16"},
		{"deep", strings.Repeat("[", 100_000), ":1:201", "nested deeper"},
		{"deep behind comments", "// [\"\n/* \" */ / " + strings.Repeat("[", 300), ":2:211", "nested deeper"},
		{"large", strings.Repeat(" ", maxFileSize+1), ":1:1", "larger than 16 MiB"},
		{"open comment", "{} /* ", ":1:", "ends too early"},
		{"tool rule kind", `{"metamcp": {"toolRules": {}}}`, ":1:27", "expected an array of tool rules, found an object"},
		{"tool rule member", `{"metamcp": {"toolRules": [{"pattern": ["a"], "enable": false}]}}`, ":1:47", "toolRules[0].enable"},
		{"tool rule pattern", `{"metamcp": {"toolRules": [{"enabled": false}]}}`, ":1:28", "pattern is missing"},
		{"tool rule enabled", `{"metamcp": {"toolRules": [{"pattern": "a", "enabled": "no"}]}}`, ":1:56", "expected a boolean, found a string"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			path := w.file("test.json", tt.text)
			e := failing(t, w.sources(path))
			contains(t, e.Message, path+tt.position, tt.message)
			if strings.Contains(e.Message, "secret") {
				t.Errorf("%q repeats what it read", e.Message)
			}
			if e.Hint == "" || e.Hint[0] < 'A' || e.Hint[0] > 'Z' {
				t.Errorf("the hint is %q, and not a sentence that says what to do", e.Hint)
			}
		})
	}
	w := newWorld(t)
	gone := failing(t, w.sources("gone.json"))
	contains(t, gone.Message, filepath.Join(w.cwd, "gone.json"), "does not exist")
	contains(t, gone.Hint, "remove it from --config")
	named := newWorld(t)
	named.env = append(named.env, FilesVariable+"=gone.json")
	contains(t, failing(t, named.sources()).Hint, "remove it from the variable METAMCP_CONFIG")
	contains(t, failing(t, w.sources(w.cwd)).Message, "cannot be read", "folder")
}

func TestOddButFine(t *testing.T) {
	tests := []struct{ name, text string }{
		{"byte order mark", "\xef\xbb\xbf{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}"},
		{"carriage returns", "{\r\n\"mcpServers\": {\"a\": {\"command\": \"x\"}}\r\n}"},
		{"comment without line feed", `{"mcpServers": {"a": {"command": "x"}}} // end`},
		{"other programs", `{"mcpServers": {"a": {"command": "x"}}, "inputs": 1, "theme": [[[]]], "projects": {"a": 1}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := newWorld(t).load(tt.text)
			clean(t, cfg)
			if s := cfg.Server("a"); s == nil || s.Err != nil {
				t.Errorf("a is %+v", s)
			}
		})
	}
}

func TestTopLevelWarnings(t *testing.T) {
	tests := []struct {
		text  string
		parts []string
	}{
		{`{"mcpserver": {}}`, []string{"did you mean mcpServers?", "neither"}},
		{`{"metamcpx": {}, "servers": {}}`, []string{"did you mean metamcp?"}},
		{`{}`, []string{"neither mcpServers nor servers"}},
	}
	for _, tt := range tests {
		cfg := newWorld(t).load(tt.text)
		contains(t, texts(cfg.Warnings), tt.parts...)
	}
	cfg := newWorld(t).load(`{"mcpServers": [], "servers": {"a": {"command": "x"}}}`)
	contains(t, texts(cfg.Problems), "mcpServers: expected an object, found an array")
	if cfg.Server("a") == nil {
		t.Error("the good half is lost")
	}
}

// A mistake at the top of a file that is saved on a running host ends nothing there.
func TestReloadNeedsAnObjectOfServers(t *testing.T) {
	for _, bad := range []string{`[]`, `null`, `"x"`} {
		w := newWorld(t)
		src := w.sources(w.file("a.json", oneServer("a")))
		cfg, err := Load(src)
		must(t, err)
		w.file("a.json", `{"mcpServers": `+bad+`}`)
		if next, err := Reload(src, cfg); err == nil {
			t.Errorf("%s: the servers are %v", bad, serverNames(next))
		} else {
			contains(t, err.Error(), "a.json:1:16: mcpServers: expected an object, found")
		}
		for _, text := range []string{`{"mcpServers": {"a": {"command": "x"}, "b": {"command": "x"}}, "servers": ` + bad + `}`, `{"servers": ` + bad + `, "mcpServers": {"b": {"command": "x"}}}`} {
			w.file("a.json", text)
			if next, err := Reload(src, cfg); err != nil || next.Server("b") == nil {
				t.Errorf("%s: %v, %v", text, serverNames(next), err)
			}
		}
		w.file("a.json", `{"mcpServers": {}}`)
		if next, err := Reload(src, cfg); err != nil || len(next.Servers) != 0 {
			t.Errorf("without servers: %v, %v", next, err)
		}
	}
}

// TestWhatIsNotUTF8 is in force nowhere with other values than those of the file.
func TestWhatIsNotUTF8(t *testing.T) {
	cfg := newWorld(t).load(`{"mcpServers": {
		"good": {"command": "x"},
		"value": {"command": "x", "env": {"KEY": "p` + "\xe4" + `ss"}},
		"name": {"command": "x", "env": {"K` + "\xe4" + `Y": "pass"}},
		"args": {"command": "x", "args": ["ok", "/tmp/caf` + "\xe9" + `.txt"]},
		"ser` + "\xe9" + `": {"command": "x"}
	}, "metamcp": {"audit": {"file": "/x/caf` + "\xe9" + `.jsonl"}}}`)
	if len(cfg.Servers) != 4 || cfg.Server("good").Err != nil || len(cfg.Problems) != 5 {
		t.Errorf("servers %v, problems %s", serverNames(cfg), texts(cfg.Problems))
	}
	for _, name := range []string{"value", "name", "args"} {
		if s := cfg.Server(name); s == nil || s.Err == nil || !strings.Contains(s.Err.Hint, "UTF-8") {
			t.Errorf("%s: %+v", name, s)
		}
	}
	contains(t, texts(cfg.Problems), "test.json:3:44: server \"value\": env.KEY: it is not written in UTF-8", "args[1]: it is not", "metamcp.audit.file: it is not")
}

func TestBadNames(t *testing.T) {
	long := strings.Repeat("n", 129)
	cfg := newWorld(t).load(`{"mcpServers": {"": {"command": "x"}, "a\u0007b": {"command": "x"}, "` + long + `": {"command": "x"}, "` + long[1:] + `": {"command": "x"}}}`)
	if len(cfg.Servers) != 1 || len(cfg.Problems) != 3 {
		t.Errorf("servers %v, problems %s", cfg.Servers, texts(cfg.Problems))
	}
	contains(t, texts(cfg.Problems), "is empty", "control characters", "longer than 128 bytes")
}

// Whoever asks for an entry that was left out is told so, and where it stands.
func TestLeftOutEntries(t *testing.T) {
	long := strings.Repeat("n", 500)
	w := newWorld(t)
	path := w.file("test.json", "{\"mcpServers\": {\n\"a\\u0007b\": {\"command\": \"x\"},\n\""+long+"\": {\"command\": \"x\"},\n\"g\xfc\xfct\": {\"command\": \"x\"}, \"good\": {\"command\": \"x\"}}}")
	src := w.sources(path)
	src.Guests = []Guest{{From: "elsewhere", Text: []byte(`{"mcpServers": {"b\u0007": {"command": "x"}}}`)}}
	cfg, err := Load(src)
	must(t, err)
	for name, want := range map[string]string{
		"a\ab": path + ":2:1: the name of the server holds control characters", long: path + ":3:1: the name of the server is longer than 128 bytes",
		"g\ufffd\ufffdt": path + ":4:1: the name of the server", "b\a": "elsewhere:1:17: the name of the server holds control characters",
	} {
		e := cfg.LeftOut(name)
		if cfg.Server(name) != nil || e == nil || e.Code != messages.CodeConfiguration || !strings.Contains(e.Message, want) || len(e.Message) > 500 || !strings.Contains(e.Hint, "left out") {
			t.Errorf("%.20q: %+v", name, e)
		}
	}
	for _, name := range []string{"good", "none"} {
		if e := cfg.LeftOut(name); e != nil {
			t.Errorf("%s: %v", name, e)
		}
	}
	if len(cfg.Problems) != 4 {
		t.Errorf("problems %s", texts(cfg.Problems))
	}
}

func TestProblemsAreBounded(t *testing.T) {
	cfg := newWorld(t).load(`{"mcpServers": {"a": {"command": "x"` + strings.Repeat(`, "zzzzzzzz": 1`, 5000) + `}}, "metamcp": {` + strings.Repeat(`"zzzzzzz": 1,`, 5000) + `}}`)
	if n := len(cfg.Warnings); n != maxReported+1 {
		t.Errorf("%d warnings", n)
	}
}

// TestPositions asks in every order and compares with counting from the start.
func TestPositions(t *testing.T) {
	text := "{\"é\": 1,\n\n \"世界\": [\"a\", \"b\"],\n\"c\": 2}"
	d, err := parseDocument("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var starts []int // of characters, where every value begins
	for i := range text {
		starts = append(starts, i)
	}
	for _, first := range starts {
		for _, second := range starts {
			d.position(first)
			line, column := d.position(second)
			before := text[:second]
			wantLine := strings.Count(before, "\n") + 1
			wantColumn := len([]rune(before[strings.LastIndexByte(before, '\n')+1:])) + 1
			if line != wantLine || column != wantColumn {
				t.Fatalf("%d after %d: got %d:%d, want %d:%d", second, first, line, column, wantLine, wantColumn)
			}
		}
	}
}

func TestRulesForUnknownServers(t *testing.T) {
	w := newWorld(t)
	cfg := w.load(`{"mcpServers": {"issues": {"command": "x"}, "off": {"command": "x", "disabled": true}}, "metamcp": {"toolRules": [
		{"pattern": "*", "server": "isues", "enabled": false}, {"pattern": "*", "server": "issues"}, {"pattern": "*", "server": "off"},
		{"pattern": "*"}, {"pattern": "*", "server": "something"}]}}`)
	if len(cfg.Warnings) != 2 {
		t.Fatalf("warnings: %v", cfg.Warnings)
	}
	contains(t, cfg.Warnings[0].Message, `rule 1 is for the server "isues"`)
	contains(t, cfg.Warnings[0].Hint, "did you mean issues?")
	contains(t, cfg.Warnings[1].Message, "rule 5")
	contains(t, cfg.Warnings[1].Hint, "does nothing")
}

// TestReloadStaysWithItsFile: as a Watcher does, Reload neither takes another
// file that appears nor takes one that is gone for one without servers.
func TestReloadStaysWithItsFile(t *testing.T) {
	w := newWorld(t)
	must(t, os.MkdirAll(filepath.Join(w.home, ".metamcp"), 0o755))
	path := filepath.Join(w.home, ".metamcp", "mcp.json")
	must(t, os.WriteFile(path, []byte(oneServer("mine")), 0o600))
	src := w.sources()
	cfg, err := Load(src)
	must(t, err)
	stranger := w.file(".mcp.json", oneServer("stranger"))
	again, err := Reload(src, cfg)
	if err != nil || again.Server("mine") == nil || again.Server("stranger") != nil {
		t.Errorf("with another file there: %v, %v", serverNames(again), err)
	}
	must(t, os.Remove(stranger))
	must(t, os.Remove(path))
	var gone *messages.Error
	if again, err := Reload(src, cfg); !errors.As(err, &gone) {
		t.Errorf("a file that is gone became %v, %v", serverNames(again), err)
	} else {
		contains(t, gone.Message, "mcp.json does not exist")
		contains(t, gone.Hint, "Put it back")
	}

	// Where none was found, one that appears is.
	none, err := Load(src)
	must(t, err)
	must(t, os.WriteFile(path, []byte(oneServer("new")), 0o600))
	if again, err := Reload(src, none); err != nil || again.Server("new") == nil {
		t.Errorf("a file that appeared: %v", err)
	}
}
