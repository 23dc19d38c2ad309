package clients

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What an entry of metamcp looks like in each client's file, by id.
var entries = map[string]string{
	"claude-desktop": "    \"metamcp\": {\n      \"command\": \"@\",\n      \"args\": []\n    }",
	"claude-code":    "    \"metamcp\": {\n      \"type\": \"stdio\",\n      \"command\": \"@\",\n      \"args\": []\n    }",
	"cursor":         "        \"metamcp\": {\n            \"command\": \"@\",\n            \"args\": []\n        },\n    },",
	"vscode":         "\t\t\"metamcp\": {\r\n\t\t\t\"type\": \"stdio\",\r\n\t\t\t\"command\": \"@\",\r\n\t\t\t\"args\": []\r\n\t\t}\r\n",
	"windsurf":       `, "metamcp": {"command": "@", "args": []}}}`,
	"zed":            "    \"metamcp\": {\n      \"source\": \"custom\",\n      \"command\": \"@\",\n      \"args\": []\n    }",
	"codex":          "\n[mcp_servers.metamcp]\ncommand = \"@\"\nargs = []\n",
	"opencode":       "    \"metamcp\": {\n      \"type\": \"local\",\n      \"command\": [\"@\"],\n      \"enabled\": true\n    },\n  },",
	"gemini":         "    \"metamcp\": {\n      \"command\": \"@\",\n      \"args\": []\n    }",
}

func TestInitAllClients(t *testing.T) {
	s, paths := machine(t)
	before := map[string]string{}
	for id, path := range paths {
		before[id] = read(t, path)
	}
	changes := initClients(t, s, InitOptions{})
	if len(changes) != len(table) {
		t.Fatalf("%d of %d clients", len(changes), len(table))
	}
	for _, c := range changes {
		text := read(t, paths[c.Client])
		if c.Client == "antigravity" { // has another metamcp under another name
			if c.Status != StatusPresent || len(c.Notes) != 1 || text != before[c.Client] {
				t.Errorf("%+v", c)
			}
			continue
		}
		if want := strings.ReplaceAll(entries[c.Client], "@", s.Executable); !c.Written || c.Status != StatusAdd || !strings.Contains(text, want) {
			t.Errorf("%s: %+v\n%s", c.Client, c, text)
		}
		if !isWithin([]byte(before[c.Client]), []byte(text)) {
			t.Errorf("%s lost something:\n%s", c.Client, text)
		}
		if info, err := os.Stat(paths[c.Client]); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("%s: mode %v, %v", c.Client, info.Mode(), err)
		}
		if read(t, c.Backup) != before[c.Client] {
			t.Errorf("%s: the backup is not what was there", c.Client)
		}
		if info, err := os.Stat(c.Backup); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: the backup's mode: %v, %v", c.Client, info.Mode(), err)
		}
		p := Place{Client: c.client, Path: c.File}
		list, err := p.Read()
		if i := slices.IndexFunc(list, func(e Entry) bool { return e.Name == "metamcp" }); err != nil || i < 0 || list[i].Command != s.Executable || len(list[i].Args) != 0 || list[i].Off {
			t.Errorf("%s: %+v, %v", c.Client, list, err)
		}
	}
	for _, c := range initClients(t, s, InitOptions{}) {
		if c.Status != StatusPresent || c.Written {
			t.Errorf("the second time: %+v", c)
		}
	}
	for _, c := range undo(t, s, "init") {
		if !c.Written {
			t.Errorf("undo: %+v", c)
		}
	}
	for id, path := range paths {
		if read(t, path) != before[id] {
			t.Errorf("%s is not as it was:\n%q", id, read(t, path))
		}
	}
	if left, err := os.ReadDir(s.Backups); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if len(undo(t, s, "init")) > 0 {
		t.Error("there was something to undo again")
	}
}

// Files that are not there are made, and gone after undo with their folders.
func TestInitMakesFiles(t *testing.T) {
	s, _ := machine(t, "none")
	if changes := planInit(t, s, InitOptions{}); len(changes) > 0 {
		t.Fatalf("nothing is installed: %+v", changes)
	}
	s.Config = []string{filepath.Join(s.Home, "own.json")}
	for _, c := range initClients(t, s, InitOptions{Clients: All()}) {
		list, err := Place{Client: c.client, Path: c.File}.Read()
		if !c.Written || err != nil || len(list) != 1 || !slices.Equal(list[0].Args, []string{"--config", s.Config[0]}) {
			t.Errorf("%+v, %+v, %v", c, list, err)
		}
		if info, err := os.Stat(c.File); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", c.File, info.Mode(), err)
		}
	}
	undo(t, s, "init")
	left, err := os.ReadDir(s.Home)
	if err != nil || len(left) != 2 { // bin and .metamcp
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestInitProject(t *testing.T) {
	s, _ := machine(t, "none")
	s.Config = []string{"/own.json"}
	changes := planInit(t, s, InitOptions{Clients: []*Client{Find("claude"), Find("cursor"), Find("Claude Desktop")}, Project: true})
	if len(changes) != 3 {
		t.Fatalf("%+v", changes)
	}
	for i, file := range []string{".mcp.json", ".cursor/mcp.json"} {
		if c := changes[i]; c.Status != StatusAdd || c.File != filepath.Join(s.Cwd, file) {
			t.Errorf("%+v", c)
		}
	}
	if c := changes[2]; c.Status != StatusFailed || !strings.Contains(c.Problem, "no file of its own for a project") {
		t.Errorf("%+v", c)
	}
}

// A project's .mcp.json is what metamcp itself reads there.
func TestInitKeepsOutOfItsOwnConfiguration(t *testing.T) {
	s, _ := machine(t, "none")
	o := InitOptions{Clients: []*Client{Find("claude-code")}, Project: true}
	for _, there := range []bool{false, true} {
		if there {
			write(t, filepath.Join(s.Cwd, ".mcp.json"), `{"mcpServers": {}}`, 0o600)
		}
		if c := only(t, planInit(t, s, o)); c.Status != StatusFailed || !strings.Contains(c.Problem, "--config") {
			t.Errorf("there %t: %+v", there, c)
		}
	}
	s.Config = []string{filepath.Join(s.Home, "own.json")}
	if c := only(t, planInit(t, s, o)); c.Status != StatusAdd {
		t.Errorf("with another configuration: %+v", c)
	}
}

func TestInitUpdates(t *testing.T) {
	other := func(args string) string {
		return `{"mcpServers": {"metamcp": {"command": "/gone/metamcp", "args": [` + args + `], "env": {"A": "b"}}}}`
	}
	for _, c := range []struct {
		name, id  string
		text      func(s *Setup) string
		config    bool
		status    Status
		want      string // of the file afterwards
		problem   string
		entryName string
	}{
		{"a program that is gone", "cursor", func(*Setup) string { return other(`"--trace"`) }, false, StatusUpdate, `{"command": "@", "args": ["--trace"], "env": {"A": "b"}}`, "", ""},
		{"another configuration", "cursor", func(*Setup) string { return other(`"--config", "/old", "--trace"`) }, true, StatusUpdate, `"args": ["--config", "/own.json", "--trace"]`, "", ""},
		{"a name without a folder, from a menu", "cursor", func(*Setup) string { return `{"mcpServers": {"metamcp": {"command": "metamcp"}}}` }, false, StatusUpdate, `{"command": "@", "args": []}`, "", ""},
		{"another name", "cursor", func(s *Setup) string { return `{"mcpServers": {"mine": {"command": "` + s.Executable + `"}}}` }, false, StatusPresent, "mine", "", ""},
		{"something else of that name", "cursor", func(*Setup) string { return `{"mcpServers": {"metamcp": {"command": "npx"}}}` }, false, StatusFailed, "npx", "--name", ""},
		{"the demo server", "cursor", func(s *Setup) string {
			return `{"mcpServers": {"demo": {"command": "` + s.Executable + `", "args": ["demo-server"]}}}`
		}, false, StatusAdd, `"metamcp": {"command": "@", "args": []}`, "", ""},
		{"turned off", "cursor", func(s *Setup) string {
			return `{"mcpServers": {"metamcp": {"command": "` + s.Executable + `", "disabled": true}}}`
		}, false, StatusPresent, "disabled", "", ""},
		{"another name asked for", "cursor", func(*Setup) string { return `{"mcpServers": {"metamcp": {"command": "npx"}}}` }, false, StatusAdd, `"mm": {`, "", "mm"},
		{"Codex", "codex", func(*Setup) string {
			return "[mcp_servers.metamcp] # x\ncommand = 'metamcp-old/metamcp' # y\nstartup_timeout_sec = 5\n"
		}, false, StatusUpdate, "[mcp_servers.metamcp] # x\nargs = []\ncommand = \"@\" # y\nstartup_timeout_sec = 5\n", "", ""},
		{"OpenCode", "opencode", func(*Setup) string {
			return `{"mcp": {"metamcp": {"type": "local", "command": ["metamcp", "--trace"], "enabled": true}}}`
		}, true, StatusUpdate, `"command": ["@", "--config", "/own.json", "--trace"], "enabled": true`, "", ""},
		{"OpenCode's second version", "opencode", func(*Setup) string { return `{"mcp": {"servers": {"x": {"type": "local", "command": ["x"]}}}}` }, false, StatusAdd, `"metamcp": {"type": "local", "command": ["@"]}}}`, "", ""},
		{"OpenCode's first version, with a server called servers", "opencode", func(*Setup) string { return `{"mcp": {"servers": {"type": "local", "command": ["x"]}}}` }, false, StatusAdd, `, "metamcp": {"type": "local", "command": ["@"], "enabled": true}}}`, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, paths := machine(t, c.id)
			if c.config {
				s.Config = []string{"/own.json"}
			}
			write(t, paths[c.id], c.text(s), 0o600)
			got := only(t, initClients(t, s, InitOptions{Entry: c.entryName}))
			text := strings.ReplaceAll(read(t, paths[c.id]), s.Executable, "@")
			if got.Status != c.status || !strings.Contains(text, c.want) || !strings.Contains(got.Problem, c.problem) {
				t.Errorf("%+v\n%s", got, text)
			}
			if again := only(t, planInit(t, s, InitOptions{Entry: c.entryName})); again.Status != StatusPresent && c.status != StatusFailed {
				t.Errorf("the second time: %+v", again)
			}
		})
	}
	s, _ := machine(t, "none")
	if _, err := s.PlanInit(InitOptions{Entry: "a b"}); err == nil {
		t.Error("a name with a space was taken")
	}
}

// One file that cannot be changed keeps nobody else from being changed.
func TestInitOddFiles(t *testing.T) {
	s, paths := machine(t)
	write(t, paths["cursor"], "not JSON", 0o600)
	write(t, paths["zed"], read(t, paths["zed"]), 0o440)
	write(t, paths["codex"], "a = \n", 0o600)
	if err := os.Remove(paths["gemini"]); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(s.Home, "nowhere"), paths["gemini"]); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(paths["opencode"]); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(paths["opencode"], 0o700); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"cursor": "it is not JSON: line 1", "zed": "read-only", "codex": "it is not TOML: line 1", "gemini": "a link to a file that is not there", "opencode": "no regular file",
	}
	for _, c := range initClients(t, s, InitOptions{}) {
		switch problem := want[c.Client]; {
		case problem == "" && c.Status == StatusFailed:
			t.Errorf("%+v", c)
		case problem != "" && (c.Status != StatusFailed || c.Written || !strings.Contains(c.Problem, problem)):
			t.Errorf("%+v, want %q", c, problem)
		}
	}
	if read(t, paths["cursor"]) != "not JSON" || read(t, paths["codex"]) != "a = \n" {
		t.Error("a broken file was changed")
	}
}

func TestUndoRefuses(t *testing.T) {
	s, paths := machine(t, "cursor", "windsurf")
	before := read(t, paths["windsurf"])
	initClients(t, s, InitOptions{})
	write(t, paths["cursor"], read(t, paths["cursor"])+"// more\n", 0o640)
	now := read(t, paths["cursor"])
	for _, c := range undo(t, s, "init") {
		if c.Client == "cursor" && (c.Status != StatusFailed || !strings.Contains(c.Problem, "changed since") || !strings.Contains(c.Problem, s.Backups)) {
			t.Errorf("%+v", c)
		}
		if c.Client == "windsurf" && !c.Written {
			t.Errorf("%+v", c)
		}
	}
	if read(t, paths["cursor"]) != now || read(t, paths["windsurf"]) != before {
		t.Error("the wrong file was restored")
	}
	if err := os.Remove(paths["cursor"]); err != nil {
		t.Fatal(err)
	}
	changes := undo(t, s, "init")
	if c := only(t, changes); c.Status != StatusPresent || len(c.Notes) == 0 || !strings.Contains(c.Notes[0], s.Backups) {
		t.Errorf("the file is gone, and the entry with it: %+v", c)
	}
}

// Several runs are taken back together, a file of one client by its name.
func TestUndoSeveralRuns(t *testing.T) {
	s, paths := machine(t, "cursor", "windsurf")
	before := read(t, paths["cursor"])
	initClients(t, s, InitOptions{})
	s.Config = []string{"/own.json"}
	if c := initClients(t, s, InitOptions{})[0]; c.Status != StatusUpdate {
		t.Fatalf("%+v", c)
	}
	if c := only(t, undo(t, s, "init", "cursor")); !c.Written || read(t, paths["cursor"]) != before {
		t.Errorf("%+v", c)
	}
	if c := only(t, undo(t, s, "init")); c.Client != "windsurf" {
		t.Errorf("%+v", c)
	}
}

func TestUndoOfABrokenBackup(t *testing.T) {
	s, paths := machine(t, "cursor")
	c := only(t, initClients(t, s, InitOptions{}))
	write(t, c.Backup, "something", 0o600)
	now := read(t, paths["cursor"])
	if c := only(t, undo(t, s, "init")); c.Status != StatusFailed || !strings.Contains(c.Problem, "backup") || read(t, paths["cursor"]) != now {
		t.Errorf("%+v", c)
	}
}

// What another program writes between the plan and the writing is not lost.
func TestChangedMeanwhile(t *testing.T) {
	s, paths := machine(t, "cursor")
	changes := planInit(t, s, InitOptions{})
	write(t, paths["cursor"], `{"mcpServers": {"new": {"command": "x"}}}`, 0o640)
	s.Apply("init", changes)
	if c := only(t, changes); c.Status != StatusFailed || !strings.Contains(c.Problem, "meanwhile") || !strings.Contains(read(t, paths["cursor"]), `"new"`) {
		t.Errorf("%+v", c)
	}
	if left, _ := os.ReadDir(s.Backups); len(left) > 0 {
		t.Errorf("a backup was left: %v", left)
	}
}

func TestInstalled(t *testing.T) {
	s, _ := machine(t, "none")
	for dir, id := range map[string]string{
		".config/Claude": "claude-desktop", ".claude": "claude-code", ".cursor": "cursor", ".config/Code": "vscode", ".codeium/windsurf": "windsurf",
		".config/zed": "zed", ".codex": "codex", ".config/opencode": "opencode", ".gemini/oauth_creds.json": "gemini", ".gemini/antigravity": "antigravity",
	} {
		if s.Installed(Find(id)) {
			t.Errorf("%s is installed without a sign of it", id)
		}
		if err := os.MkdirAll(filepath.Join(s.Home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
		if !s.Installed(Find(id)) {
			t.Errorf("%s is not found by %s", id, dir)
		}
	}
	if Find("nonsense") != nil || Find("Claude_Desktop").ID != "claude-desktop" || Find("code").ID != "vscode" {
		t.Error("clients are not found by their names")
	}
}
