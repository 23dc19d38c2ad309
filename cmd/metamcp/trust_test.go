package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/registry"
	"github.com/metamcp/metamcp/integration/registry/fakeregistry"
)

// provisionCommand runs `metamcp registry …` or `metamcp trust …` with a state
// folder of the test's.
func provisionCommand(t *testing.T, state string, words ...string) (stdout, stderr string, err error) {
	t.Helper()
	c := &common{logLevel: "warn"}
	root := &cobra.Command{Use: "metamcp", SilenceUsage: true, SilenceErrors: true}
	c.overlay = config.RegisterFlags(root.PersistentFlags())
	root.AddCommand(newRegistry(c), newTrust(c))
	var out, errOut bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errOut)
	root.SetArgs(append(words, "--state-dir", state))
	err = root.ExecuteContext(t.Context())
	return out.String(), errOut.String(), err
}

func emptyConfig(t *testing.T) {
	t.Helper()
	empty := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(empty, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("METAMCP_CONFIG", empty)
}

func TestTrustCommand(t *testing.T) {
	emptyConfig(t)
	state := t.TempDir()
	file := filepath.Join(state, "trusted-servers.json")
	for _, step := range []struct {
		args []string
		want string // of stdout, or of the error after "error: "
	}{
		{[]string{"list"}, "trusted  npm   @modelcontextprotocol/*\n"},
		{[]string{"add", "@stripe/*", "pypi:mcp-server-fetch"}, "@stripe/* is trusted now\npypi:mcp-server-fetch is trusted now\n"},
		{[]string{"add", "@stripe/*"}, "@stripe/* is trusted already\n"},
		{[]string{"add", "--block", "@evil/*"}, "@evil/* is blocked now\n"},
		{[]string{"add", "--block", "@modelcontextprotoco1/*"}, "@modelcontextprotoco1/* is blocked now\n"},
		{[]string{"add", "@modelcontextprotoco1/*"}, "error: @modelcontextprotoco1/* was not added: it imitates @modelcontextprotocol/*"},
		{[]string{"add", "server-filesystem"}, "error: server-filesystem was not added"},
		{[]string{"add", "--force", "server-filesystem"}, "server-filesystem is trusted now\n"},
		{[]string{"add", "@ok/x", "*"}, "error: \"*\": only a whole namespace"},
		{[]string{"remove", "@stripe/*"}, "@stripe/* is not trusted any more\n"},
		{[]string{"remove", "@ok/x"}, "@ok/x was not trusted\n"},
		{[]string{"remove", "--block", "@evil/*", "--json"}, `"changed": true`},
		{[]string{"list", "--json"}, `"entry": "pypi:mcp-server-fetch"`},
		{[]string{"add"}, "error: add needs ENTRY"},
	} {
		out, _, err := provisionCommand(t, state, append([]string{"trust"}, step.args...)...)
		got := out
		if err != nil {
			got = "error: " + err.Error()
		}
		if !strings.Contains(got, step.want) {
			t.Errorf("%q: %q, want %q", step.args, got, step.want)
		}
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "// What stands here is never installed") || strings.Contains(string(text), "@ok/x") {
		t.Errorf("%s, %v", text, err)
	}

	if err := os.WriteFile(file, []byte(`{"trusted": [`), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err := provisionCommand(t, state, "trust", "list", "--json")
	if err == nil || !strings.Contains(err.Error(), "nobody is trusted") || !strings.Contains(out, `"trusted": []`) {
		t.Errorf("a broken file: %q, %v", out, err)
	}
	if _, _, err = provisionCommand(t, state, "trust", "add", "@a/*"); err == nil || !strings.Contains(err.Error(), "was left as it is") {
		t.Errorf("a broken file was changed: %v", err)
	}
	var usage usageError
	if _, _, err = provisionCommand(t, state, "trust", "add", "@a/**"); !errors.As(err, &usage) {
		t.Errorf("a bad entry is no usage error: %v", err)
	}
}

func TestRegistrySearch(t *testing.T) {
	emptyConfig(t)
	state := t.TempDir()
	evil := fakeregistry.Server("io.github.evil/everything", "1.0.0", "Everything\u202e", "@modelcontextprotoco1/server-everything")
	old := fakeregistry.Server("io.github.b/everything-old", "0.9.0", "Old", "@b/everything")
	old.Status, old.StatusMessage = "deprecated", "use the new one"
	fake := fakeregistry.Start(t, fakeregistry.Server("io.github.a/everything", "1.2.3", "Everything", "@modelcontextprotocol/server-everything"), evil, old,
		fakeregistry.Server("io.github.c/weather", "1.0.0", "Weather", "@c/weather"))

	out, stderr, err := provisionCommand(t, state, "registry", "search", "everything", "--registry-url", fake.URL)
	if err != nil || stderr != "" {
		t.Fatalf("%v, %q", err, stderr)
	}
	for _, want := range [][]string{
		{"io.github.a/everything", "1.2.3", "yes", "npm", "Everything"},
		{"io.github.evil/everything", "1.0.0", "imitation", "npm"},
		{"io.github.b/everything-old", "0.9.0", "no", "npm", "deprecated:", "use", "the", "new", "one"},
	} {
		if !strings.Contains(strings.Join(strings.Fields(out), " ")+" ", strings.Join(want, " ")+" ") {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if strings.Contains(out, "weather") || strings.Contains(out, "\u202e") {
		t.Errorf("found\n%s", out)
	}

	fake.Close()
	out, _, err = provisionCommand(t, state, "registry", "search", "everything", "--registry-url", fake.URL, "--json", "--refresh")
	var report foundReport
	if err != nil || json.Unmarshal([]byte(out), &report) != nil || report.Source != registry.FromCache || len(report.Servers) != 3 || report.Complete {
		t.Fatalf("%v\n%s", err, out)
	}
	if s := report.Servers[0]; s.Status != registry.Active || len(s.Trust) != 1 || !s.Trust[0].Trusted || s.Packages[0].Version != "1.2.3" {
		t.Errorf("%+v", s)
	}

	out, stderr, err = provisionCommand(t, t.TempDir(), "registry", "search", "slack", "--registry-url", fake.URL)
	if err != nil || !strings.Contains(out, "@modelcontextprotocol/server-slack") || !strings.Contains(stderr, "built-in list of 20") {
		t.Errorf("offline: %v, %q\n%s", err, stderr, out)
	}
	for _, c := range []struct{ words, first, behind string }{
		{"github", "github", "@modelcontextprotocol/server-github"},
		{"browser", "@playwright/mcp", "@modelcontextprotocol/server-puppeteer"},
	} {
		out, stderr, err := provisionCommand(t, t.TempDir(), "registry", "search", c.words, "--registry-url", fake.URL)
		var found []string
		for line := range strings.Lines(out) {
			found = append(found, strings.Fields(line)[0])
		}
		first, behind := slices.Index(found, c.first), slices.Index(found, c.behind)
		if err != nil || first < 1 || behind < first || !strings.Contains(out, "deprecated: Archived") || !strings.Contains(stderr, "and the gallery of ") {
			t.Errorf("%s: %v, %q\n%s", c.words, err, stderr, out)
		}
		if again := slices.Clone(found); len(found) > 30 || len(slices.Compact(slices.Sorted(slices.Values(again)))) != len(found) || slices.Contains(found, "playwright") {
			t.Errorf("%s: one is there twice:\n%s", c.words, out)
		}
	}
	var usage usageError
	for _, bad := range [][]string{{"registry", "search"}, {"registry", "search", "x", "--limit", "0"}, {"registry", "search", "a\u200bb"}} {
		if _, _, err := provisionCommand(t, state, bad...); !errors.As(err, &usage) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// The address stands in the settings, where people see it, and in the client.
func TestDefaultRegistry(t *testing.T) {
	if got := config.DefaultSettings().RegistryURL; got != registry.DefaultURL {
		t.Errorf("the setting's default is %s, the client's %s", got, registry.DefaultURL)
	}
}
