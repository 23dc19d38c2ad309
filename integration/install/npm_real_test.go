package install

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/registry"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/integration/trust"
)

const (
	everything        = "@modelcontextprotocol/server-everything"
	everythingVersion = "2026.1.26"
	everythingHash    = "sha512-RIEXAQuKZeXZqFzJMqLDlzmMmG5sjq2uhS/VqzF4HIZ3w1V73YcWf+UXkxJueJuHMBO3Z8ceBrQ5wI6o/plZ+Q=="
)

func everythingPackage() registry.Package {
	return registry.Package{Kind: registry.NPM, Identifier: everything, Version: everythingVersion, BaseURL: "https://registry.invalid"}
}

// TestInstallsARealServer goes the whole way with the real npm: twice at once,
// kept as one, started, changed, removed.
func TestInstallsARealServer(t *testing.T) {
	state := t.TempDir()
	p := planned(t, Options{StateDir: state}, everythingPackage())
	if p.Source.Version != everythingVersion || p.Source.Integrity != everythingHash || !p.Installable || len(p.Missing) > 0 {
		t.Errorf("the plan is %+v", p)
	}
	want := Entry{Command: "npx", Args: []string{"-y", everything + "@" + everythingVersion}}
	if got, _ := json.Marshal(p.Entry); string(got) != mustJSON(t, want) {
		t.Errorf("the entry is %s", got)
	}
	for _, part := range []string{everythingVersion, everythingHash, "npm install", "--ignore-scripts"} {
		if !strings.Contains(p.Text(), part) {
			t.Errorf("the text does not say %q:\n%s", part, p.Text())
		}
	}
	nothingLeft(t, state)

	var both [2]*Installed
	var wait sync.WaitGroup
	for i := range both {
		wait.Go(func() {
			var err error
			if both[i], err = p.Install(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if t.Failed() {
		return
	}
	l := provisioned.Open(state)
	if list, err := l.List(); err != nil || len(list) != 0 {
		t.Errorf("before it was kept there are %v, %v", list, err)
	}
	kept, _, err := both[0].Keep(t.Context(), "", nil, "@modelcontextprotocol/*", "named exactly")
	must(t, err)
	both[0].Release()
	again, _, err := both[1].Keep(t.Context(), "", nil, "@modelcontextprotocol/*", "named exactly")
	must(t, err)
	if kept.Name != "server-everything" || again.Folder != kept.Folder {
		t.Errorf("kept as %+v and %+v", kept, again)
	}
	must(t, both[0].Discard()) // it was kept, so nothing happens
	folders, err := os.ReadDir(l.Servers())
	if err != nil || len(folders) != 1 || folders[0].Name() != kept.Folder {
		t.Errorf("there are %v, %v", folders, err)
	}
	if kept.Entry.Command != "node" || len(kept.Entry.Args) != 1 || !strings.HasPrefix(kept.Entry.Args[0], l.Dir(kept)) {
		t.Errorf("it is started by %+v", kept.Entry)
	}
	must(t, l.Verify(t.Context(), kept))
	if text, err := os.ReadFile(filepath.Join(l.Dir(kept), "package-lock.json")); err != nil || !strings.Contains(string(text), everythingHash) {
		t.Errorf("npm's lock file does not hold the hash: %v", err)
	}

	node, err := exec.LookPath(kept.Entry.Command)
	must(t, err)
	c := testkit.StartCommand(t, testkit.Command{Path: node, Args: kept.Entry.Args}).Legacy(t)
	tools, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
	if err != nil || len(tools.Tools) < 5 {
		t.Errorf("its tools: %v, %v", tools, err)
	}
	// Running has changed nothing.
	must(t, l.Verify(t.Context(), kept))

	program := kept.Entry.Args[0]
	must(t, os.WriteFile(program, []byte("evil()"), 0o700))
	var changed *provisioned.ChangedError
	if err := l.Verify(t.Context(), kept); !errors.As(err, &changed) || changed.Path != program {
		t.Errorf("a changed program: %v", err)
	}
	_, err = l.Remove(t.Context(), kept.Name)
	must(t, err)
	if left, err := os.ReadDir(l.Servers()); err != nil || len(left) != 0 {
		t.Errorf("there is left %v, %v", left, err)
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	must(t, err)
	return string(text)
}

// A description that is not trusted says nothing but the name of the package.
func TestOnlyThePackageIsTrusted(t *testing.T) {
	pkg := everythingPackage()
	pkg.PackageArgs = []registry.Argument{{Type: "positional", Input: registry.Input{Value: "--evil"}}}
	pkg.RuntimeArgs = []registry.Argument{{Type: "named", Name: "--evil", Input: registry.Input{Value: "x"}}}
	pkg.Environment = []registry.KeyValue{
		{Name: "FIXED", Input: registry.Input{Value: "evil"}},
		{Name: "PREFILLED", Input: registry.Input{Default: "evil"}},
		{Name: "NODE_OPTIONS", Input: registry.Input{Required: true}},
		{Name: "PATHS", Input: registry.Input{Required: true, Description: "what it needs"}},
	}
	s := described(pkg)
	p, err := Resolve(t.Context(), Options{StateDir: t.TempDir(), Environ: append(os.Environ(), "PATHS=secret")}, s, trust.Candidates(s)[0], registry.NPM)
	must(t, err)
	if p.Source.Version == everythingVersion || p.Source.Version < everythingVersion {
		t.Errorf("the version is %s, and not the newest", p.Source.Version)
	}
	if text := mustJSON(t, p.Entry) + mustJSON(t, p.Start); strings.Contains(text, "evil") || strings.Contains(text, "NODE_OPTIONS") || strings.Contains(text, "secret") {
		t.Errorf("its description is in %s", text)
	}
	if len(p.Missing) != 1 || p.Missing[0].Name != "PATHS" || p.Missing[0].Description != "what it needs" {
		t.Errorf("missing are %+v", p.Missing)
	}
	if _, err := p.Install(t.Context()); len(reason(t, err, Missing).Needs) != 1 {
		t.Errorf("missing: %v", err)
	}
}

func TestRealNPMKnowsNoSuchPackage(t *testing.T) {
	opts := Options{StateDir: t.TempDir()}
	for _, pkg := range []registry.Package{
		{Kind: registry.NPM, Identifier: everything, Version: "99.99.99"},
		{Kind: registry.NPM, Identifier: "@modelcontextprotocol/no-such-package-of-this-name"},
	} {
		_, err := resolve(t, opts, pkg)
		if e := reason(t, err, NotFound); !strings.Contains(e.Message, pkg.Identifier) || e.Hint == "" {
			t.Errorf("it says %v", e)
		}
	}
}

func TestARealLibraryHasNoProgram(t *testing.T) {
	_, err := resolve(t, Options{StateDir: t.TempDir()}, registry.Package{Kind: registry.NPM, Identifier: "@modelcontextprotocol/sdk", Version: "1.0.0"})
	if e := reason(t, err, NoProgram); !strings.Contains(e.Message, "@modelcontextprotocol/sdk") {
		t.Errorf("it says %v", e)
	}
}
