package metamcp_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/npmservers"
	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/registry/fakeregistry"
	"github.com/metamcp/metamcp/messages"
)

// fakeNPM is a fake npm on PATH that knows every package in version 1.2.3 and
// installs a small MCP server for each.
func fakeNPM(t *testing.T) {
	t.Helper()
	npmservers.Node(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"npm": `#!/bin/sh
name=${2%@*}
case "$1" in
view) printf '{"name":"%s","version":"1.2.3","dist.integrity":"sha512-AAAA","bin":"index.js"}' "$name" ;;
install)
	mkdir -p "node_modules/$name"
	cp "` + dir + `/index.js" "node_modules/$name/index.js"
	printf '{"name":"%s","version":"1.2.3","bin":"index.js"}' "$name" > "node_modules/$name/package.json"
	printf '{"packages":{"node_modules/%s":{"version":"1.2.3","integrity":"sha512-AAAA"}}}' "$name" > package-lock.json ;;
*) exit 1 ;;
esac
`,
		"index.js": `#!/usr/bin/env node
require("readline").createInterface({input: process.stdin}).on("line", line => {
	const m = JSON.parse(line);
	if (m.id === undefined) return;
	let result = {};
	if (m.method === "initialize") result = {protocolVersion: "2025-06-18", capabilities: {tools: {}}, serverInfo: {name: "fake", version: "1"}};
	if (m.method === "tools/list") result = {tools: [{name: "forecast", description: "Tells the weather", inputSchema: {type: "object"}}]};
	console.log(JSON.stringify({jsonrpc: "2.0", id: m.id, result}));
});
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// openWithRegistry is an engine that asks a registry with one server, and its
// state folder.
func openWithRegistry(t *testing.T, trust string, settings map[string]any) (*metamcp.Engine, string) {
	t.Helper()
	reg := fakeregistry.Start(t, fakeregistry.Server("io.github.acme/weather", "1.2.3", "Tells the weather of any place", "@acme/weather"))
	dir := t.TempDir()
	state := filepath.Join(dir, ".metamcp")
	if trust != "" {
		if err := errors.Join(os.MkdirAll(state, 0o700), os.WriteFile(filepath.Join(state, "trusted-servers.json"), []byte(trust), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	all := map[string]any{"registry": map[string]any{"url": reg.URL}, "search": map[string]any{"embedder": "none"}}
	for k, v := range settings {
		all[k] = v
	}
	return openConfig(t, dir, children(nil, all)), state
}

// A person's yes stands in for trust, and not for what nobody may install.
func TestProvisionByAPerson(t *testing.T) {
	fakeNPM(t)
	e, state := openWithRegistry(t, "", nil)
	a, err := e.Provision(t.Context(), metamcp.ProvisionRequest{Intent: "tell the weather"})
	if err != nil || a.Decision != metamcp.DecisionRecommended || len(a.Matches) != 1 || a.Matches[0].Key != "npm:@acme/weather" {
		t.Fatalf("%+v, %v", a, err)
	}
	if _, err := os.Stat(filepath.Join(state, provisioned.FileName)); err == nil {
		t.Error("something was installed")
	}
	var steps []string
	yes := metamcp.ProvisionRequest{
		Intent: "tell the weather", Person: true, Choice: a.Matches[0].Key, Progress: func(s metamcp.ProvisionStep) { steps = append(steps, s.Text) },
	}
	dry := yes
	dry.DryRun = true
	if a, err = e.Provision(t.Context(), dry); err != nil || a.Decision != metamcp.DecisionRecommended || a.Version != "1.2.3" {
		t.Fatalf("%+v, %v", a, err)
	}
	if a, err = e.Provision(t.Context(), yes); err != nil || a.Decision != metamcp.DecisionProvisioned || a.Server != "weather" || len(a.Tools) != 1 {
		t.Fatalf("%+v, %v", a, err)
	}
	if !slices.ContainsFunc(steps, func(s string) bool { return strings.Contains(s, "installing") }) {
		t.Errorf("steps %q", steps)
	}
	list, err := provisioned.Open(state).List()
	if err != nil || len(list) != 1 || list[0].AllowedBy != provisioned.APerson || list[0].Source.Version != "1.2.3" || list[0].Source.Integrity != "sha512-AAAA" {
		t.Errorf("the lock file has %+v, %v", list, err)
	}
	gone := yes
	gone.Choice = "npm:@acme/other"
	var failure *metamcp.Error
	if _, err := e.Provision(t.Context(), gone); !errors.As(err, &failure) || failure.Code != messages.CodeServerNotFound {
		t.Errorf("what is not there any more: %v", err)
	}
}

func TestProvisionNeverByAPerson(t *testing.T) {
	fakeNPM(t)
	for name, trust := range map[string]string{
		"blocked":    `{"trusted": [], "blocked": ["@acme/*"]}`,
		"trust file": `{"trusted": [`,
	} {
		e, state := openWithRegistry(t, trust, nil)
		a, err := e.Provision(t.Context(), metamcp.ProvisionRequest{Intent: "use @acme/weather", Person: true, Choice: "npm:@acme/weather"})
		if err != nil || a.Decision != metamcp.DecisionDenied || a.Denied == nil || a.Denied.Code != messages.CodeProvisionDenied {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
		if list, err := provisioned.Open(state).List(); err != nil || len(list) != 0 {
			t.Errorf("%s: the lock file has %+v, %v", name, list, err)
		}
	}
}

// Tools that rules close are not told of, and the answer says why there are none.
func TestProvisionUnderToolRules(t *testing.T) {
	fakeNPM(t)
	e, _ := openWithRegistry(t, `{"trusted": ["@acme/*"]}`, map[string]any{"toolRules": []any{map[string]any{"pattern": "fore*", "enabled": false}}})
	a, err := e.Provision(t.Context(), metamcp.ProvisionRequest{Intent: "use @acme/weather", AutoProvision: true})
	if err != nil || a.Decision != metamcp.DecisionProvisioned || len(a.Tools) != 0 || !strings.Contains(strings.Join(a.Notes, " "), "toolRules") {
		t.Errorf("%+v, %v", a, err)
	}
}

// Values that look like secrets are refused, and so are variables that nobody
// asks for.
func TestProvisionRefusesValues(t *testing.T) {
	fakeNPM(t)
	e, state := openWithRegistry(t, `{"trusted": ["@acme/*"]}`, nil)
	_, err := e.Provision(t.Context(), metamcp.ProvisionRequest{Intent: "use @acme/weather", AutoProvision: true, Env: map[string]string{"OTHER": "x"}})
	var failure *metamcp.Error
	if !errors.As(err, &failure) || !strings.Contains(failure.Message, "OTHER") {
		t.Errorf("%v", err)
	}
	if list, err := provisioned.Open(state).List(); err != nil || len(list) != 0 {
		t.Errorf("the lock file has %+v, %v", list, err)
	}
}
