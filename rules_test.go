package metamcp_test

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/messages"
)

// A closed tool is not found, not listed and not callable; asked for by name
// its status is shown.
func TestToolRulesHoldEverywhere(t *testing.T) {
	t.Parallel()
	e := open(t, map[string][]string{"one": nil}, map[string]any{
		"toolRules": []map[string]any{{"pattern": []string{"add"}, "enabled": false}, {"pattern": []string{"*"}, "tags": []string{"tagged"}}},
	})
	found, err := e.Search(t.Context(), "add two numbers", metamcp.SearchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range found.Matches {
		if m.Name == "add" {
			t.Error("a closed tool was found")
		}
		if len(m.Tags) != 1 || m.Tags[0] != "tagged" {
			t.Errorf("%s has tags %q", m.Name, m.Tags)
		}
	}
	if found, err = e.Search(t.Context(), "add two numbers", metamcp.SearchOptions{IncludeDisabled: true}); err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(found.Matches, func(m metamcp.Match) bool { return m.Name == "add" }); i < 0 || found.Matches[i].Enabled {
		t.Errorf("a search for closed tools too has %+v", found.Matches)
	}
	tools, err := e.ListTools(t.Context(), "one", false)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools {
		if tool.Name == "add" {
			t.Error("a closed tool is listed")
		}
	}
	if tool, err := e.ToolDetails(t.Context(), "one", "add"); err != nil || tool.Enabled {
		t.Errorf("asked for by name: %+v, %v; want it with its status", tool, err)
	}
	answer, err := e.Discover(t.Context(), metamcp.DiscoverRequest{Server: "one", Tool: "add"})
	if err != nil || answer.Tool == nil || answer.Tool.Enabled || answer.Tool.Definition != nil || len(answer.Notes) != 1 {
		t.Errorf("mcp_discover asked for it by name: %+v, %v; want its status alone", answer, err)
	}
	_, err = e.Execute(t.Context(), "one", "add", json.RawMessage(`{"a":1,"b":2}`), metamcp.ExecuteOptions{})
	var failure *metamcp.Error
	if !errors.As(err, &failure) || failure.Code != messages.CodeToolDisabled {
		t.Errorf("calling a closed tool: %v", err)
	}
	if s := e.ListServers()[0]; s.Enabled != s.Tools-1 {
		t.Errorf("%d of %d tools are enabled", s.Enabled, s.Tools)
	}
}

func TestBrokenToolRuleRefusesTheConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openIn(t, dir, map[string][]string{"one": nil})
	if _, err := writeConfig(dir, children(map[string][]string{"two": nil}, map[string]any{
		"toolRules": []map[string]any{{"pattern": []string{"/(/"}, "enabled": false}},
	})); err != nil {
		t.Fatal(err)
	}
	var failure *metamcp.Error
	if err := e.Reload(t.Context()); !errors.As(err, &failure) || failure.Code != messages.CodeConfiguration {
		t.Errorf("reload: %v; want a CONFIGURATION_ERROR", err)
	}
	file := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(file, []byte("{\"metamcp\": {\"toolRules\": [\n  {\"pattern\": \"a\"},\n  {\"pattern\": [\"b\", \"/(/\"]}]}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := file + `:3:3: metamcp.toolRules: tool rule 2: pattern "/(/": `
	if err := e.Reload(t.Context()); !errors.As(err, &failure) || !strings.HasPrefix(failure.Message, want) {
		t.Errorf("reload: %v; want %s", err, want)
	}
	if s := e.ListServers(); len(s) != 1 || s[0].Name != "one" {
		t.Errorf("servers after a refused reload: %+v", s)
	}
}

// TestRulesDocument tries the examples of docs/RULES.md: a configuration, and
// behind it a table of what it makes of tools.
func TestRulesDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/RULES.md")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for i, part := range strings.Split(string(text), "```jsonc\n")[1:] {
		example, rest, _ := strings.Cut(part, "```")
		dir := t.TempDir()
		file := filepath.Join(dir, "mcp.json")
		if err := os.WriteFile(file, []byte(example), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(config.Sources{Files: []string{file}, Home: dir, Cwd: dir})
		if err != nil {
			t.Fatalf("example %d: %v", i+1, err)
		}
		var rules []index.Rule
		for _, r := range cfg.Settings.ToolRules {
			rules = append(rules, index.Rule{Patterns: r.Pattern, Server: r.Server, Enabled: r.Enabled, Tags: r.Tags})
		}
		compiled, err := index.CompileRules(rules)
		if err != nil {
			t.Fatalf("example %d: %v", i+1, err)
		}
		_, table, _ := strings.Cut(rest, "|---|---|---|\n")
		table, _, _ = strings.Cut(table, "\n\n")
		for row := range strings.SplitSeq(table, "\n") {
			cells := strings.Split(strings.Trim(row, "|"), "|")
			if len(cells) != 3 {
				t.Fatalf("example %d: the row %q", i+1, row)
			}
			server, tool, _ := strings.Cut(strings.Trim(cells[0], " `"), "/")
			enabled, tags := compiled.Decide(server, tool, nil)
			if is := map[bool]string{true: "open", false: "closed"}[enabled]; is != strings.TrimSpace(cells[1]) || strings.Join(tags, ", ") != strings.TrimSpace(cells[2]) {
				t.Errorf("example %d: %s/%s is %s with tags %q; the row says %q", i+1, server, tool, is, tags, row)
			}
			tried++
		}
	}
	if tried == 0 {
		t.Error("no example was found")
	}
}

// TestReloadSaysWhatChanged: a reload that changes only rules is no reload of
// nothing.
func TestReloadSaysWhatChanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, err := writeConfig(dir, children(map[string][]string{"one": nil}, nil))
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	e, err := metamcp.Open(t.Context(), metamcp.Options{
		Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir}, Log: slog.New(slog.NewTextHandler(&synced{w: &log}, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writeConfig(dir, children(map[string][]string{"one": nil}, map[string]any{
		"toolRules": []map[string]any{{"pattern": []string{"add"}, "enabled": false}},
	})); err != nil {
		t.Fatal(err)
	}
	err = errors.Join(e.Reload(t.Context()), e.Close(t.Context()))
	if want := "added=0 changed=0 removed=0 settings=[toolRules]"; err != nil || !strings.Contains(log.String(), want) {
		t.Errorf("%v; %q is not in the log:\n%s", err, want, log.String())
	}
}

// synced lets several goroutines write.
type synced struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *synced) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// TestDisabledServerIsNotFound turns a known server off: nothing offers its
// tools any more, and every way to them says how to turn it on.
func TestDisabledServerIsNotFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openIn(t, dir, map[string][]string{"one": nil, "two": nil})
	find := func() (servers []string) {
		found, err := e.Search(t.Context(), "add two numbers", metamcp.SearchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range found.Matches {
			if m.Name == "add" {
				servers = append(servers, m.Server)
			}
		}
		slices.Sort(servers)
		return servers
	}
	if got := find(); !slices.Equal(got, []string{"one", "two"}) {
		t.Fatalf("add is found at %q before anything is disabled", got)
	}
	cfg := children(map[string][]string{"one": nil, "two": nil}, nil)
	cfg["mcpServers"].(map[string]any)["two"].(map[string]any)["disabled"] = true
	cfg["mcpServers"].(map[string]any)["never"] = map[string]any{"command": "none", "disabled": true}
	if _, err := writeConfig(dir, cfg); err != nil {
		t.Fatal(err)
	}
	if err := e.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := find(); !slices.Equal(got, []string{"one"}) {
		t.Errorf("add is found at %q; want the enabled server alone", got)
	}
	_, byList := e.ListTools(t.Context(), "two", false)
	_, byDiscover := e.Discover(t.Context(), metamcp.DiscoverRequest{Server: "two"})
	_, byName := e.Discover(t.Context(), metamcp.DiscoverRequest{Server: "two", Tool: "add"})
	_, byQuery := e.Discover(t.Context(), metamcp.DiscoverRequest{Server: "two", Query: "add"})
	_, bySearch := e.Search(t.Context(), "add", metamcp.SearchOptions{Server: "two", CachedOnly: true})
	_, byCall := e.Execute(t.Context(), "two", "add", json.RawMessage(`{"a":1,"b":2}`), metamcp.ExecuteOptions{})
	for way, err := range map[string]error{"list": byList, "discover": byDiscover, "discover tool": byName, "discover query": byQuery, "search": bySearch, "call": byCall} {
		var failure *metamcp.Error
		if !errors.As(err, &failure) || failure.Code != messages.CodeConfiguration || !strings.Contains(failure.Hint, "metamcp enable two") {
			t.Errorf("%s: %v; want a CONFIGURATION_ERROR that says how to enable it", way, err)
		}
	}
	all := metamcp.SearchOptions{Server: "two", IncludeDisabled: true}
	if found, err := e.Search(t.Context(), "add two numbers", all); err != nil || len(found.Matches) == 0 || found.Matches[0].Name != "add" || found.Matches[0].Enabled {
		t.Errorf("a search for closed tools too: %+v, %v", found, err)
	}
	all.Server = "never"
	var nothing *metamcp.Error
	if _, err := e.Search(t.Context(), "add two numbers", all); !errors.As(err, &nothing) || nothing.Code != messages.CodeConfiguration {
		t.Errorf("a search of a disabled server of which no tool is known: %v", err)
	}
	if _, err := writeConfig(dir, children(map[string][]string{"one": nil, "two": nil}, nil)); err != nil {
		t.Fatal(err)
	}
	if err := e.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := find(); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("add is found at %q after both are enabled again", got)
	}
}
