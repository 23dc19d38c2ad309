package clients

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/config"
)

func planImport(t *testing.T, s *Setup, o ImportOptions) *Plan {
	t.Helper()
	if o.Target == "" {
		o.Target = filepath.Join(s.Home, ".metamcp", "mcp.json")
	}
	plan, err := s.PlanImport(o)
	if err != nil {
		t.Fatal(err)
	}
	noSecrets(t, plan.Changes)
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{tokenValue, plainSecret, argSecret} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the plan shows %q", secret)
		}
	}
	return plan
}

// find returns what became of a client's server.
func (p *Plan) find(t *testing.T, client, name string) *Taken {
	t.Helper()
	for _, s := range p.Servers {
		if s.Client == client && s.Name == name {
			return s
		}
	}
	t.Fatalf("%s's %s is not in the plan", client, name)
	return nil
}

func TestImportAllClients(t *testing.T) {
	s, paths := machine(t)
	before := map[string]string{}
	for id, path := range paths {
		before[id] = read(t, path)
	}
	plan := planImport(t, s, ImportOptions{})
	s.Apply("import", plan.Changes)
	noSecrets(t, plan.Changes)
	if len(plan.Changes) != 1 || !plan.Changes[0].Written {
		t.Fatalf("%+v", plan.Changes)
	}
	target := plan.Changes[0].File
	var got struct {
		Servers map[string]json.RawMessage `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(read(t, target)), &got); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ client, name, as, want, note string }{
		{"claude-desktop", "files", "files", `{"command":"npx","args":["-y","@modelcontextprotocol/server-filesystem","/data","$${literal}"]}`, ""},
		{"claude-code", "github", "github", `{"command":"npx","args":["-y","@modelcontextprotocol/server-github"],"env":{"GITHUB_PERSONAL_ACCESS_TOKEN":"` + tokenValue + `","LEVEL":"${LEVEL:-info}"},"timeoutMs":90000}`, ""},
		{"claude-code", "docs", "docs", `{"type":"sse","url":"https://docs.example.com/events","headers":{"Authorization":"Bearer ` + plainSecret + `"}}`, ""},
		{"claude-code", "socket", "", "", ""},
		{"cursor", "fs", "fs", `{"command":"/usr/bin/npx","args":["-y","@modelcontextprotocol/server-filesystem","/data","$$${literal}"]}`, ""},
		{"cursor", "github", "github-cursor", `{"command":"npx","args":["-y","@modelcontextprotocol/server-github"],"env":{"GITHUB_PERSONAL_ACCESS_TOKEN":"${OTHER_ACCOUNT}"}}`, "envFile"},
		{"vscode", "weather", "weather", `{"command":"${HOME}/bin/weather","args":["--key","${API_KEY}","${workspaceFolder}"]}`, `set the variable API_KEY where metamcp is started: the editor asks for "api-key" (API key)`},
		{"vscode", "weather", "weather", "", "${workspaceFolder} is filled in by the editor only"},
		{"vscode", "weather", "weather", "", "no such setting: dev"},
		{"windsurf", "remote", "remote", `{"type":"http","url":"https://api.example.com/mcp","headers":{"Authorization":"Bearer ${API_TOKEN}"}}`, "disabledTools is not taken"},
		{"zed", "old", "old", `{"command":"old-server","args":["--stdio"],"env":{"DB_PASSWORD":"` + plainSecret + `"}}`, ""},
		{"zed", "extension", "", "", ""},
		{"zed", "git", "git", "", ""},
		{"codex", "git", "git", `{"command":"uvx","args":["mcp-server-git"]}`, ""},
		{"codex", "search", "search", `{"command":"search-server","args":["--api-key","` + argSecret + `"],"env":{"SEARCH_SECRET":"` + plainSecret + `"},"inheritEnv":["SEARCH_REGION"],"cwd":"/srv","timeoutMs":500,"startupTimeoutMs":20000}`, "enabled_tools is not taken"},
		{"codex", "linear", "linear", `{"type":"http","url":"https://mcp.linear.example/mcp","headers":{"X-Team":"blue","X-Key":"${LINEAR_KEY}","Authorization":"Bearer ${LINEAR_TOKEN}"}}`, ""},
		{"opencode", "local", "local", `{"command":"bun","args":["x","my-mcp"],"env":{"FILE":"{file:~/.key}","KEY":"${MY_KEY}"},"startupTimeoutMs":60000}`, "{file:~/.key} is filled in by OpenCode only"},
		{"opencode", "far", "far", `{"type":"http","url":"https://far.example.com/mcp","headers":{"X":"${FAR}"}}`, ""},
		{"gemini", "events", "events", `{"type":"sse","url":"https://events.example.com/x"}`, ""},
		{"gemini", "stream", "stream", `{"type":"http","url":"https://stream.example.com/x","timeoutMs":5000}`, ""},
		{"gemini", "py", "py", `{"command":"python3","args":["-m","server","$5","$lower"],"env":{"API_KEY":"${MY_KEY}","B":"${B_KEY}"},"cwd":"/srv/py"}`, "includeTools is not taken"},
		{"antigravity", "metamcp-old", "", "", ""},
		{"antigravity", "ag", "ag", `{"command":"ag-server","args":[]}`, ""},
	} {
		taken := plan.find(t, c.client, c.name)
		if taken.As != c.as || (c.as == "") != (taken.Status == TakenSkipped) || c.as == "" && taken.Reason == "" {
			t.Errorf("%s's %s: %+v", c.client, c.name, taken)
		}
		if c.want != "" && compact(t, got.Servers[c.as]) != c.want {
			t.Errorf("%s's %s became %s\nwant %s", c.client, c.name, compact(t, got.Servers[c.as]), c.want)
		}
		if !strings.Contains(strings.Join(taken.Notes, "\n"), c.note) {
			t.Errorf("%s's %s: the notes %q lack %q", c.client, c.name, taken.Notes, c.note)
		}
	}
	// Zed's git is Codex's, where it is turned on.
	if d := plan.find(t, "zed", "git"); d.Status != TakenDouble || d.Reason != "Codex has it too" {
		t.Errorf("%+v", d)
	}
	if len(plan.Notes) != 1 || !strings.Contains(plan.Notes[0], "2 more for single folders") {
		t.Errorf("%q", plan.Notes)
	}
	for id, path := range paths {
		if read(t, path) != before[id] {
			t.Errorf("%s's file was changed", id)
		}
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	// metamcp itself understands it; what is left to do is an entry's own problem.
	cfg, err := config.Load(config.Sources{Files: []string{target}, Home: s.Home, Cwd: s.Home, Environ: []string{
		"HOME=/h", "OTHER_ACCOUNT=x", "API_KEY=x", "API_TOKEN=x", "LINEAR_KEY=x", "LINEAR_TOKEN=x", "MY_KEY=x", "FAR=x", "B_KEY=x",
	}})
	if err != nil || len(cfg.Warnings) > 0 || len(cfg.Servers) != len(got.Servers) {
		t.Fatalf("%v, %v", err, cfg.Warnings)
	}
	if len(cfg.Problems) != 1 || cfg.Problems[0].Server != "weather" {
		t.Errorf("%v", cfg.Problems)
	}
	if files := cfg.Server("files"); files.Args[3] != "${literal}" {
		t.Errorf("%q", files.Args)
	}
	if fs := cfg.Server("fs"); fs.Args[3] != "$${literal}" {
		t.Errorf("%q", fs.Args)
	}
	if again := planImport(t, s, ImportOptions{}); again.Changes[0].Status != StatusPresent {
		t.Errorf("the second time: %+v", again.Changes[0])
	}
	undo(t, s, "import")
	if exists(target) {
		t.Error("the configuration is still there after undo")
	}
}

func compact(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	d, err := parseJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	d.root.Minimize()
	return string(d.root.Pack())
}

// Removed servers are in metamcp's configuration, and back after undo.
func TestImportRemoves(t *testing.T) {
	s, paths := machine(t)
	before := map[string]string{}
	for id, path := range paths {
		before[id] = read(t, path)
	}
	target := write(t, filepath.Join(s.Home, ".metamcp", "mcp.json"), "{\n  // mine\n  \"servers\": {\n    \"old\": {\"command\": \"mine\"}, // keep\n  },\n}\n", 0o644)
	own := read(t, target)
	plan := planImport(t, s, ImportOptions{Remove: true})
	s.Apply("import", plan.Changes)
	for _, c := range plan.Changes {
		if !c.Written {
			t.Errorf("%+v", c)
		}
	}
	if text := read(t, target); !strings.Contains(text, "\"old\": {\"command\": \"mine\"}, // keep\n") || !strings.Contains(text, `"old-zed"`) {
		t.Errorf("%s", text)
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("it holds keys now, and its mode is %v, %v", info.Mode(), err)
	}
	left := 0
	for id, path := range paths {
		p := Place{Client: Find(id), Path: path}
		list, _, err := p.Client.entries([]byte(read(t, path)))
		if err != nil {
			t.Errorf("%s: %v", id, err)
		}
		left += len(list)
		for _, comment := range []string{"// of mine", "/* last */", "// asked for", "# the end", "# Codex", "// Zed settings", "// bun"} {
			if strings.Contains(before[id], comment) && !strings.Contains(read(t, path), comment) {
				t.Errorf("%s lost %q", id, comment)
			}
		}
	}
	if left != 3 { // the web socket, the extension, and metamcp
		t.Errorf("%d servers are left", left)
	}
	// The other command's change has to go first.
	initClients(t, s, InitOptions{})
	for _, c := range undo(t, s, "import") {
		if c.Client != "antigravity" && c.Status != StatusFailed {
			t.Errorf("%+v", c)
		}
	}
	undo(t, s, "init")
	for _, c := range undo(t, s, "import") {
		if c.Client != "antigravity" && !c.Written {
			t.Errorf("%+v", c)
		}
	}
	for id, path := range paths {
		if read(t, path) != before[id] {
			t.Errorf("%s is not as it was", id)
		}
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o644 || read(t, target) != own {
		t.Errorf("%v, %v: %s", info.Mode(), err, read(t, target))
	}
}

// Nothing goes from a client's file that could not be written to ours.
func TestImportThatCannotWrite(t *testing.T) {
	s, paths := machine(t, "cursor")
	before := read(t, paths["cursor"])
	target := write(t, filepath.Join(s.Home, ".metamcp", "mcp.json"), "{}", 0o444)
	plan := planImport(t, s, ImportOptions{Remove: true})
	s.Apply("import", plan.Changes)
	if len(Failed(plan.Changes)) != 2 || read(t, paths["cursor"]) != before || read(t, target) != "{}" {
		t.Errorf("%+v", plan.Changes)
	}
	write(t, target, "broken", 0o600)
	if _, err := s.PlanImport(ImportOptions{Target: target}); err == nil || !strings.Contains(err.Error(), "by hand") {
		t.Errorf("%v", err)
	}
}

func TestImportProject(t *testing.T) {
	s, _ := machine(t, "claude-code")
	write(t, filepath.Join(s.Cwd, ".mcp.json"), `{"mcpServers": {"shared": {"command": "./run", "cwd": "sub"}}}`, 0o600)
	write(t, filepath.Join(s.Cwd, ".cursor", "mcp.json"), `{"mcpServers": {"ws": {"command": "x", "args": ["${workspaceFolder}/a", "${workspaceFolderBasename}"]}}}`, 0o600)
	plan := planImport(t, s, ImportOptions{Project: true, Clients: []*Client{Find("claude-code"), Find("cursor")}, Remove: true})
	s.Apply("import", plan.Changes)
	text := read(t, plan.Changes[0].File)
	for _, want := range []string{`"local"`, `"shared"`, s.Cwd + "/sub", s.Cwd + "/a", `"work"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	if strings.Contains(text, "other-server") || strings.Contains(text, "github") {
		t.Errorf("more than this project's: %s", text)
	}
	if claude := read(t, filepath.Join(s.Home, ".claude.json")); strings.Contains(claude, "local-server") || !strings.Contains(claude, "other-server") {
		t.Errorf("%s", claude)
	}
	// A file in the folder is a sign of its client, whatever is in the home.
	write(t, filepath.Join(s.Cwd, ".gemini", "settings.json"), `{"mcpServers": {"gem": {"command": "gem-server", "args": "--flag"}}}`, 0o600)
	plan = planImport(t, s, ImportOptions{Project: true})
	i := slices.IndexFunc(plan.Servers, func(t *Taken) bool { return t.Name == "gem" })
	if i < 0 || plan.Servers[i].Status != TakenNew || !strings.Contains(plan.Changes[0].Diff, `"--flag"`) {
		t.Errorf("%+v\n%s", plan.Servers, plan.Changes[0].Diff)
	}
	// A file that metamcp reads itself is no client's.
	if plan := planImport(t, s, ImportOptions{Project: true, Clients: []*Client{Find("cursor")}, Target: filepath.Join(s.Cwd, ".cursor", "mcp.json"), Remove: true}); len(plan.Servers) > 0 {
		t.Errorf("%+v", plan.Servers)
	}
}

// How a server is logged in to is taken with it, and understood.
func TestImportLogins(t *testing.T) {
	s, paths := machine(t, "claude-code", "opencode")
	write(t, paths["claude-code"], `{"mcpServers": {
		"chat": {"type": "http", "url": "https://chat.example.com/mcp", "oauth": {"clientId": "16.88", "callbackPort": 3118, "scopes": "read  write", "authServerMetadataUrl": "https://a.example.com"}},
		"odd": {"type": "http", "url": "https://odd.example.com/mcp", "oauth": {"clientSecret": "`+plainSecret+`", "callbackPort": 70000}}
	}}`, 0o600)
	write(t, paths["opencode"], `{"mcp": {
		"chat": {"type": "remote", "url": "https://chat.example.com/mcp"},
		"mail": {"type": "remote", "url": "https://mail.example.com/mcp", "oauth": {"clientId": "{env:MAIL}", "clientSecret": "`+plainSecret+`", "scope": "send"}},
		"open": {"type": "remote", "url": "https://open.example.com/mcp", "oauth": false}
	}}`, 0o600)
	target := write(t, filepath.Join(s.Home, ".metamcp", "mcp.json"), `{"mcpServers": {}}`, 0o644)
	plan := planImport(t, s, ImportOptions{})
	s.Apply("import", plan.Changes)
	cfg, err := config.Load(config.Sources{Files: []string{target}, Home: s.Home, Cwd: s.Home, Environ: []string{"MAIL=me"}})
	if err != nil || len(cfg.Problems)+len(cfg.Warnings) > 0 || len(cfg.Servers) != 4 {
		t.Fatalf("%v, %v, %v", err, cfg.Problems, cfg.Warnings)
	}
	if o := cfg.Server("chat").OAuth; o == nil || o.ClientID != "16.88" || o.RedirectPort != 3118 || !slices.Equal(o.Scopes, []string{"read", "write"}) {
		t.Errorf("chat: %+v", o)
	}
	if o := cfg.Server("mail").OAuth; o == nil || o.ClientID != "me" || o.ClientSecret != plainSecret || !slices.Equal(o.Scopes, []string{"send"}) {
		t.Errorf("mail: %+v", o)
	}
	if odd, open := cfg.Server("odd").OAuth, cfg.Server("open").OAuth; odd != nil || open != nil {
		t.Errorf("odd: %+v, open: %+v", odd, open)
	}
	for name, want := range map[string]string{"chat": ": oauth.authServerMetadataUrl", "odd": ": oauth.callbackPort, oauth.clientSecret"} {
		if notes := plan.find(t, "claude-code", name).Notes; len(notes) != 1 || !strings.HasSuffix(notes[0], want) {
			t.Errorf("%s: the notes are %q", name, notes)
		}
	}
	if double := plan.find(t, "opencode", "chat"); double.Status != TakenDouble {
		t.Errorf("%+v", double)
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if again := planImport(t, s, ImportOptions{}); again.Changes[0].Status != StatusPresent {
		t.Errorf("the second time: %+v", again.Changes[0])
	}
}

// Double ones are told apart from two accounts of one service.
func TestDoubles(t *testing.T) {
	entry := func(env string) string { return `{"command": "npx", "args": ["s"], "env": {` + env + `}}` }
	for _, c := range []struct{ name, first, second, status, as string }{
		{"equal", entry(`"A": "1"`), entry(`"A": "1"`), TakenDouble, "s"},
		{"fewer variables", entry(`"A": "1", "B": "2"`), entry(`"A": "1"`), TakenDouble, "s"},
		{"more variables", entry(`"A": "1"`), entry(`"A": "1", "B": "2"`), TakenDouble, "s"},
		{"another login", `{"url": "https://x.example", "oauth": {"clientId": "1"}}`, `{"url": "https://x.example", "oauth": {"clientId": "2"}}`, TakenNew, "s-windsurf"},
		{"another account", entry(`"A": "1"`), entry(`"A": "2"`), TakenNew, "s-windsurf"},
		{"each has its own", entry(`"A": "1"`), entry(`"B": "2"`), TakenNew, "s-windsurf"},
		{"a folder before the command", entry(""), `{"command": "/opt/bin/npx", "args": ["s"]}`, TakenDouble, "s"},
		{"two folders", `{"command": "/a/npx", "args": ["s"]}`, `{"command": "/b/npx", "args": ["s"]}`, TakenNew, "s-windsurf"},
		{"other arguments", entry(""), `{"command": "npx", "args": ["t"]}`, TakenNew, "s-windsurf"},
		{"references written in two ways", entry(`"A": "${env:X}"`), entry(`"A": "${env:X}"`), TakenDouble, "s"},
		{"addresses", `{"url": "https://a/mcp"}`, `{"serverUrl": "https://a/mcp"}`, TakenDouble, "s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, paths := machine(t, "cursor", "windsurf")
			write(t, paths["cursor"], `{"mcpServers": {"s": `+c.first+`}}`, 0o600)
			write(t, paths["windsurf"], `{"mcpServers": {"s": `+c.second+`}}`, 0o600)
			plan := planImport(t, s, ImportOptions{})
			if got := plan.find(t, "windsurf", "s"); got.Status != c.status || got.As != c.as {
				t.Errorf("%+v", got)
			}
			s.Apply("import", plan.Changes)
			if text := read(t, plan.Changes[0].File); c.name == "more variables" && !strings.Contains(text, `"B"`) {
				t.Errorf("a variable was lost: %s", text)
			}
			if again := planImport(t, s, ImportOptions{}); again.Changes[0].Pending() {
				t.Errorf("the second time: %s", again.Changes[0].Diff)
			}
		})
	}
}

// A server that works goes on working: what is turned off stands for no double that is on.
func TestDoublesThatAreTurnedOff(t *testing.T) {
	entry := func(name, env string, off bool) string {
		return `"` + name + `": {"command": "npx", "args": ["s"], "env": {` + env + `}, "disabled": ` + fmt.Sprint(off) + `}`
	}
	const one, two = `"A": "1"`, `"A": "1", "B": "2"`
	off, on := entry("s", one, true), entry("s", one, false)
	type becomes struct{ status, as, reason string }
	const offHere = "metamcp's configuration has it, turned off"
	for _, c := range []struct {
		name, own, cursor, windsurf string
		first, second               becomes // of Cursor and Windsurf
		want                        string  // metamcp's servers that are on, with their variables
		left                        string  // the clients that keep theirs
	}{
		{"the second is on", "", off, on, becomes{TakenDouble, "s", "Windsurf has it too"}, becomes{TakenNew, "s", ""}, "s1 ", ""},
		{"the first is on", "", on, off, becomes{TakenNew, "s", ""}, becomes{TakenDouble, "s", "Cursor has it too"}, "s1 ", ""},
		{"both are off", "", off, off, becomes{TakenNew, "s", ""}, becomes{TakenDouble, "s", "Cursor has it too"}, "", ""},
		{"another name", "", entry("x", one, true), on, becomes{TakenDouble, "s", "Windsurf has it too"}, becomes{TakenNew, "s", ""}, "s1 ", ""},
		{"the richer one is off", "", entry("s", two, true), on, becomes{TakenDouble, "s", "Windsurf has it too, with fewer variables"}, becomes{TakenNew, "s", ""}, "s2 ", ""},
		{"the poorer one is off", "", off, entry("s", two, false), becomes{TakenDouble, "s", "Windsurf has it too"}, becomes{TakenNew, "s", ""}, "s2 ", ""},
		{"off here", entry("mine", one, true), on, off, becomes{TakenSkipped, "mine", offHere}, becomes{TakenDouble, "mine", "metamcp's configuration has it"}, "", "cursor "},
		{"off here, on in both", entry("mine", one, true), on, on, becomes{TakenSkipped, "mine", offHere}, becomes{TakenSkipped, "mine", offHere}, "", "cursor windsurf "},
		{"off here, and on", entry("mine", one, true) + ", " + entry("too", one, false), on, off, becomes{TakenDouble, "too", "metamcp's configuration has it"}, becomes{TakenDouble, "mine", "metamcp's configuration has it"}, "too1 ", ""},
		{"off here, richer there", entry("mine", one, true), entry("s", two, false), on, becomes{TakenNew, "s", ""}, becomes{TakenDouble, "s", "Cursor has it too"}, "s2 ", ""},
		{"on here", entry("mine", one, false), off, on, becomes{TakenDouble, "mine", "metamcp's configuration has it"}, becomes{TakenDouble, "mine", "metamcp's configuration has it"}, "mine1 ", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, paths := machine(t, "cursor", "windsurf")
			write(t, paths["cursor"], `{"mcpServers": {`+c.cursor+`}}`, 0o600)
			write(t, paths["windsurf"], `{"mcpServers": {`+c.windsurf+`}}`, 0o600)
			target := write(t, filepath.Join(s.Home, ".metamcp", "mcp.json"), `{"mcpServers": {`+c.own+`}}`, 0o600)
			plan := planImport(t, s, ImportOptions{Target: target, Remove: true})
			for i, want := range []becomes{c.first, c.second} {
				got := plan.Servers[i]
				if (becomes{got.Status, got.As, got.Reason}) != want {
					t.Errorf("%+v, want %+v", got, want)
				}
				if hint := "metamcp enable mine --config " + target; (want.reason == offHere) != strings.Contains(strings.Join(got.Notes, "\n"), hint) {
					t.Errorf("the notes are %q", got.Notes)
				}
			}
			s.Apply("import", plan.Changes)
			list, _, err := ownEntries([]byte(read(t, target)))
			if err != nil {
				t.Fatal(err)
			}
			works := ""
			for i := range list {
				if env, _ := list[i].members["env"].(map[string]any); !list[i].Off {
					works += fmt.Sprint(list[i].Name, len(env), " ")
				}
			}
			left := ""
			for _, id := range []string{"cursor", "windsurf"} {
				if strings.Contains(read(t, paths[id]), "npx") {
					left += id + " "
				}
			}
			if works != c.want || left != c.left {
				t.Errorf("on are %q, left with %q\n%s", works, left, read(t, target))
			}
		})
	}
}

// Very many servers come in at once.
func TestImportManyServers(t *testing.T) {
	const many = 3000
	s, paths := machine(t, "cursor")
	var b strings.Builder
	for i := range many {
		fmt.Fprintf(&b, "%s\"s%d\": {\"command\": \"npx\", \"args\": [\"%d\"]}", map[bool]string{true: ", "}[i > 0], i, i)
	}
	write(t, paths["cursor"], `{"mcpServers": {`+b.String()+`}}`, 0o600)
	target := write(t, filepath.Join(s.Home, ".metamcp", "mcp.json"), "{\n  \"mcpServers\": {\n    \"s1\": {\"command\": \"mine\"} // keep\n  }\n}\n", 0o600)
	plan := planImport(t, s, ImportOptions{})
	s.Apply("import", plan.Changes)
	list, _, err := ownEntries([]byte(read(t, target)))
	if err != nil || len(list) != many+1 || plan.find(t, "cursor", "s1").As != "s1-cursor" || !strings.Contains(read(t, target), "\"command\": \"mine\"}, // keep\n    \"s0\"") {
		t.Errorf("%d servers, %v", len(list), err)
	}
}

// Names that metamcp add refuses are not taken over from other files either.
func TestImportOfNames(t *testing.T) {
	s, paths := machine(t, "cursor")
	write(t, paths["cursor"], `{"mcpServers": {"../d": {"command": "a"}, "d": {"command": "b"}, "My Server": {"command": "c"}, "..": {"command": "e"}, "`+strings.Repeat("x", 100)+`": {"command": "f"}}}`, 0o600)
	plan := planImport(t, s, ImportOptions{})
	for name, as := range map[string]string{"../d": "d", "d": "d-cursor", "My Server": "My-Server", "..": "server", strings.Repeat("x", 100): strings.Repeat("x", 40)} {
		if got := plan.find(t, "cursor", name); got.As != as || got.Status != TakenNew || got.Reason == "" {
			t.Errorf("%q: %+v", name, got)
		}
	}
	s.Apply("import", plan.Changes)
	list, _, err := ownEntries([]byte(read(t, plan.Changes[0].File)))
	if err != nil || len(list) != 5 {
		t.Errorf("%+v, %v", list, err)
	}
	for _, e := range list {
		if err := CheckServerName(e.Name); err != nil {
			t.Error(err)
		}
	}
}
