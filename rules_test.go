package metamcp_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/messages"
)

// A closed tool is not found, not listed and not callable; asked for by name
// its status is shown.
func TestToolRulesHoldEverywhere(t *testing.T) {
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
	if s := e.ListServers(); len(s) != 1 || s[0].Name != "one" {
		t.Errorf("servers after a refused reload: %+v", s)
	}
}
