package metamcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/messages"
)

// TestResultsGoWithoutSecrets: what a tool answers is scrubbed for every caller,
// unless its server or everything is exempt, and the audit log says of what kind
// it was. What a caller sends arrives as it is.
func TestResultsGoWithoutSecrets(t *testing.T) {
	token := "gh" + "p_" + strings.Repeat("aB3dE5gH7jK9", 3)
	const known = "this-is-known-1"
	args, _ := json.Marshal(map[string]string{"text": "a " + token + " b " + known})
	dir := t.TempDir()
	cfg := children(map[string][]string{"demo": nil, "open": nil}, nil)
	servers := cfg["mcpServers"].(map[string]any)
	servers["demo"].(map[string]any)["env"] = map[string]string{childVariable: "1", "SOME_KEY": known}
	servers["open"].(map[string]any)["scrub"] = false
	e := openConfig(t, dir, cfg)
	call := func(server string) *metamcp.Result {
		t.Helper()
		r, err := e.Execute(t.Context(), server, "echo", args, metamcp.ExecuteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	got := call("demo")
	if want := `{"content":[{"type":"text","text":"a [REDACTED:GitHub-token] b [REDACTED:SOME_KEY]"}]}`; string(got.Raw) != want {
		t.Errorf("%s, want %s", got.Raw, want)
	}
	if got.Redacted["GitHub-token"] != 1 || got.Redacted["SOME_KEY"] != 1 {
		t.Errorf("counted %v", got.Redacted)
	}
	if got := call("open"); !strings.Contains(string(got.Raw), token) || got.Redacted != nil {
		t.Errorf("the exempt server: %s, %v", got.Raw, got.Redacted)
	}

	run := func(code string) *metamcp.RunResult {
		t.Helper()
		r, err := e.Run(t.Context(), metamcp.RunRequest{Code: code})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	text, _ := json.Marshal("a " + token + " b " + known)
	r := run(`const v = await servers.demo.echo({text: ` + string(text) + `}); console.log(v); return {v, sent: v.length}`)
	if len(r.Console) != 1 || strings.Contains(r.Console[0].Text+string(r.Value), token) || strings.Contains(string(r.Value), known) || !strings.Contains(string(r.Value), "[REDACTED:GitHub-token]") {
		t.Errorf("script: %s, %v", r.Value, r.Console)
	}
	r = run(`const parts = ` + strings.ReplaceAll(string(text), "p_a", `p_" + "a`) + `; console.log(parts); throw new Error(parts)`)
	if r.Failure == nil || strings.Contains(r.Failure.Message+r.Failure.Stack+r.Console[0].Text, token) || !strings.Contains(r.Failure.Message, "[REDACTED:GitHub-token]") {
		t.Errorf("failed script: %+v, %v", r.Failure, r.Console)
	}
	r = run(`return await servers.open.echo({text: ` + string(text) + `})`)
	if !strings.Contains(string(r.Value), token) {
		t.Errorf("script on the exempt server: %s", r.Value)
	}

	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(filepath.Join(dir, ".metamcp", "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(log), `"redacted":{"GitHub-token":1,"SOME_KEY":1}`); n != 2 || strings.Contains(string(log), token) {
		t.Errorf("%d entries tell what was taken out: %s", n, log)
	}
	if n := strings.Count(string(log), `"redacted"`); n < 3 {
		t.Errorf("the failed script's entry does not tell what was taken out: %s", log)
	}
}

// TestFormerSecretsStayKnown changes and removes the secrets of a configuration
// while the host lives: what was one stays one.
func TestFormerSecretsStayKnown(t *testing.T) {
	t.Parallel()
	const first, second, removed = "oldPass-w0rd-55!", "newPass-w0rd-66!", "gonePass-w0rd-77!"
	dir := t.TempDir()
	write := func(password string, more bool) {
		t.Helper()
		servers := map[string][]string{"demo": nil}
		if more {
			servers["more"] = nil
		}
		cfg := children(servers, nil)
		cfg["mcpServers"].(map[string]any)["demo"].(map[string]any)["env"] = map[string]string{childVariable: "1", "MY_PASSWORD": password}
		if more {
			cfg["mcpServers"].(map[string]any)["more"].(map[string]any)["env"] = map[string]string{childVariable: "1", "MY_PASSWORD": removed}
		}
		if _, err := writeConfig(dir, cfg); err != nil {
			t.Fatal(err)
		}
	}
	write(first, true)
	e, err := metamcp.Open(t.Context(), metamcp.Options{
		Sources: config.Sources{Files: []string{filepath.Join(dir, "mcp.json")}, Home: dir, Cwd: dir}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close(context.Background()) })
	write(second, false)
	if err := e.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	args, _ := json.Marshal(map[string]string{"text": first + " " + second + " " + removed})
	r, err := e.Execute(t.Context(), "demo", "echo", args, metamcp.ExecuteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const mark = "[REDACTED:MY_PASSWORD]"
	if want := `{"content":[{"type":"text","text":"` + mark + " " + mark + " " + mark + `"}]}`; string(r.Raw) != want {
		t.Errorf("%s, want %s", r.Raw, want)
	}
}

// TestResultsStayWhereScrubIsOff: nothing is looked for then.
func TestResultsStayWhereScrubIsOff(t *testing.T) {
	token := "gh" + "p_" + strings.Repeat("aB3dE5gH7jK9", 3)
	args, _ := json.Marshal(map[string]string{"text": token})
	e := open(t, map[string][]string{"demo": nil}, map[string]any{"scrub": false})
	r, err := e.Execute(t.Context(), "demo", "echo", args, metamcp.ExecuteOptions{})
	if err != nil || !strings.Contains(string(r.Raw), token) || r.Redacted != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

// Every text of a script's error is scrubbed, also where only a part of a line is
// shown, and where the script names what there is not.
func TestErrorsOfScriptsGoWithoutSecrets(t *testing.T) {
	t.Parallel()
	token := "gh" + "p_" + strings.Repeat("aB3dE5gH7jK9", 3)
	const known = "this-is-known-1"
	cfg := children(map[string][]string{"demo": nil}, nil)
	cfg["mcpServers"].(map[string]any)["demo"].(map[string]any)["env"] = map[string]string{childVariable: "1", "SOME_KEY": known}
	e := openConfig(t, t.TempDir(), cfg)
	text, _ := json.Marshal("a " + token + " b " + known)
	for what, code := range map[string]string{
		"a line that fails":          `const s = ` + string(text) + `; throw new Error("x")`,
		"a line that is no script":   `const s = ` + string(text) + `; return {[s]: 1, n: undeclared ? }`,
		"a tool that there is not":   `await servers.demo[` + string(text) + `]({})`,
		"a server that there is not": `await servers[` + string(text) + `].x({})`,
	} {
		r, err := e.Run(t.Context(), metamcp.RunRequest{Code: code})
		if err != nil {
			t.Fatal(err)
		}
		if r.Failure == nil {
			t.Errorf("%s: %s", what, r.Value)
			continue
		}
		shown, err := json.Marshal([]any{metamcp.NewRunError(r.Failure), r.Console, r.Calls, r.Notes})
		if err != nil {
			t.Fatal(err)
		}
		if all := string(shown); strings.Contains(all, token[len(token)-12:]) || strings.Contains(all, known) || !strings.Contains(all, "[REDACTED:GitHub-token]") || strings.Contains(r.Failure.Excerpt, "^") {
			t.Errorf("%s: %s", what, all)
		}
	}
}

// TestProblemsOfTheConfigurationGoWithoutSecrets: a secret in the place of a name, or of
// a word, is in no error of a call and in no line of the log.
func TestProblemsOfTheConfigurationGoWithoutSecrets(t *testing.T) {
	t.Parallel()
	token := "gh" + "p_" + strings.Repeat("aB3dE5gH7jK9", 3)
	const known = "this-is-known-1"
	cfg := children(map[string][]string{"demo": nil}, map[string]any{"search": map[string]any{"embedder": known}, "token=" + token: 1})
	servers := cfg["mcpServers"].(map[string]any)
	servers["demo"].(map[string]any)["env"] = map[string]string{childVariable: "1", "SOME_KEY": known}
	servers["name"] = map[string]any{"command": "x", "env": map[string]string{"GITHUB_TOKEN=" + token: ""}}
	servers["type"] = map[string]any{"command": "x", "type": "Bearer " + token}
	servers["lifecycle"] = map[string]any{"command": "x", "lifecycle": known}
	servers["member"] = map[string]any{"command": "x", "Authorization: Bearer " + token: 1}
	var log bytes.Buffer
	e := openLogging(t, t.TempDir(), cfg, slog.NewTextHandler(&log, nil))
	for _, server := range []string{"name", "type", "lifecycle"} {
		_, err := e.Execute(t.Context(), server, "echo", nil, metamcp.ExecuteOptions{})
		var failure *metamcp.Error
		if !errors.As(err, &failure) || failure.Code != messages.CodeConfiguration || !strings.Contains(failure.Message, "[REDACTED:") {
			t.Errorf("%s: %v", server, err)
		}
	}
	for _, s := range e.ListServers() {
		if s.Name != "demo" && s.Name != "member" && (s.Error == nil || !strings.Contains(s.Error.Message, "[REDACTED:")) {
			t.Errorf("%s is listed with %v", s.Name, s.Error)
		}
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if said := log.String(); strings.Contains(said, token) || strings.Contains(said, known) || strings.Count(said, "[REDACTED:") < 6 {
		t.Errorf("the log: %s", said)
	}
}

// What a server says of its tools goes without secrets too, wherever it is shown.
func TestDescriptionsGoWithoutSecrets(t *testing.T) {
	t.Parallel()
	const known = "tr0ub4dor-and-3"
	dir := t.TempDir()
	file := filepath.Join(dir, "tools.json")
	tools := `{"forecast":{"name":"forecast","description":"Asks postgres://app:` + known + `@db.internal/prod for the weather.","inputSchema":{"type":"object","properties":{"password":{"type":"string"}}}}}`
	if err := os.WriteFile(file, []byte(tools), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := children(map[string][]string{"weather": {"--tools-file", file}}, map[string]any{
		"expose": []string{"tools"}, "search": map[string]any{"embedder": "none"}, "registry": map[string]any{"url": "http://127.0.0.1:9"},
	})
	cfg["mcpServers"].(map[string]any)["weather"].(map[string]any)["env"] = map[string]string{childVariable: "1", "DB_PASSWORD": known}
	e := openConfig(t, dir, cfg)
	clean := func(what, shown string) {
		t.Helper()
		if strings.Contains(shown, known) || !strings.Contains(shown, "[REDACTED:DB_PASSWORD]") || !strings.Contains(shown, "forecast") {
			t.Errorf("%s shows %s", what, shown)
		}
	}
	for _, ask := range []metamcp.DiscoverRequest{{Query: "forecast"}, {Server: "weather", Detail: "full"}, {Server: "weather", Tool: "forecast"}} {
		a, err := e.Discover(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := json.Marshal(a)
		clean("Discover", string(raw))
	}
	a, err := e.Provision(t.Context(), metamcp.ProvisionRequest{Intent: "use the weather server"})
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := json.Marshal(a)
	clean("Provision", string(raw))
	post := poster(t, fronts["http"](t, e))
	for method, call := range map[string][2]string{
		"tools/list":     {"", "{}"},
		"mcp_discover":   {"tools/call", `{"query":"forecast"}`},
		"mcp_provision":  {"tools/call", `{"intent":"use the weather server"}`},
		"mcp_discover 2": {"tools/call", `{"server":"weather","tool":"forecast"}`},
	} {
		name, _, _ := strings.Cut(method, " ")
		if call[0] == "" {
			call[0], name = method, ""
		}
		_, body := post(call[0], name, call[1])
		clean(method, body)
		if method == "tools/list" && !strings.Contains(body, `"weather__forecast"`) {
			t.Errorf("it is listed as %s", body)
		}
	}
}
