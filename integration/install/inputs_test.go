package install

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/registry"
	"github.com/metamcp/metamcp/integration/secrets"
	"github.com/metamcp/metamcp/integration/trust"
	"github.com/metamcp/metamcp/messages"
)

func TestSuggestedNames(t *testing.T) {
	for _, c := range []struct {
		kind     registry.Kind
		id, want string
	}{
		{registry.NPM, "@modelcontextprotocol/server-everything", "server-everything"},
		{registry.NPM, "@playwright/mcp", "playwright-mcp"},
		{registry.NPM, "@sentry/mcp-server", "sentry-mcp-server"},
		{registry.NPM, "mcp", "mcp"},
		{registry.PyPI, "Some.Thing_x", "some.thing_x"},
		{registry.OCI, "docker.io/mcp/fetch:1.2@sha256:ab", "fetch"},
		{registry.OCI, "host:5000/image", "image"},
		{registry.MCPB, "https://github.com/o/r/releases/download/v1/weather-v1.mcpb", "weather-v1"},
		{trust.Remote, "https://mcp.linear.app/sse", "linear"},
		{trust.Remote, "https://x.example.com/mcp", "example"},
		{trust.Remote, "https://{region}.example.com/mcp", "example"},
		{registry.NPM, "../../etc/passwd", "passwd"},
		{registry.NPM, "@evil/..", "evil"},
		{registry.NPM, "nul", ""},
		{registry.NPM, "a b\nc", "a-b-c"},
		{registry.NPM, "", "server"},
		{registry.NPM, strings.Repeat("x", 200), strings.Repeat("x", 60)},
	} {
		got := suggestName(c.kind, c.id)
		if provisioned.CheckName(got) != nil || c.want != "" && got != c.want {
			t.Errorf("%s %q is called %q and not %q", c.kind, c.id, got, c.want)
		}
	}
}

// Names that would be paths, options or commands reach no package manager.
func TestHostilePackagesAreNotAsked(t *testing.T) {
	opts := Options{StateDir: t.TempDir(), Environ: []string{"PATH="}} // asking would be another failure
	for _, pkg := range []registry.Package{
		{Kind: registry.NPM, Identifier: "../evil"},
		{Kind: registry.NPM, Identifier: "a/../../b"},
		{Kind: registry.NPM, Identifier: "--global"},
		{Kind: registry.NPM, Identifier: "a b"},
		{Kind: registry.NPM, Identifier: "a\nb"},
		{Kind: registry.NPM, Identifier: "a;b"},
		{Kind: registry.NPM, Identifier: "git+ssh://evil/x"},
		{Kind: registry.NPM, Identifier: "https://evil/x.tgz"},
		{Kind: registry.NPM, Identifier: ""},
		{Kind: registry.NPM, Identifier: "a", Version: "../x"},
		{Kind: registry.NPM, Identifier: "a", Version: "1 2"},
		{Kind: registry.NPM, Identifier: "a", Version: "latest"},
		{Kind: registry.NPM, Identifier: "a", Version: "^1"},
		{Kind: registry.PyPI, Identifier: "-r"},
		{Kind: registry.PyPI, Identifier: "a @ https://evil"},
		{Kind: registry.OCI, Identifier: "--privileged"},
		{Kind: registry.OCI, Identifier: "a//b"},
		{Kind: registry.MCPB, Identifier: "http://evil/x.mcpb", SHA256: strings.Repeat("a", 64)},
		{Kind: registry.MCPB, Identifier: "file:///etc/passwd", SHA256: strings.Repeat("a", 64)},
	} {
		_, err := resolve(t, opts, pkg)
		reason(t, err, Invalid)
	}
	_, err := resolve(t, opts, registry.Package{Kind: "nuget", Identifier: "x"})
	reason(t, err, NotSupported)
	_, err = resolve(t, Options{}, registry.Package{Kind: registry.NPM, Identifier: "x"})
	reason(t, err, Invalid)
	s := described(registry.Package{Kind: registry.NPM, Identifier: "x"})
	_, err = Resolve(t.Context(), opts, s, trust.Candidate{Kind: registry.NPM, Package: "y"}, trust.ServerName)
	reason(t, err, Invalid)
	if left, err := os.ReadDir(opts.StateDir); err != nil || len(left) != 0 {
		t.Errorf("there is %v, %v", left, err)
	}
}

func TestInputs(t *testing.T) {
	pkg := registry.Package{
		Kind: registry.NPM, Identifier: "x",
		PackageArgs: []registry.Argument{
			{Type: "positional", Input: registry.Input{Value: "run ${NOT} {mode}", Variables: map[string]registry.Input{"mode": {Default: "fast"}}}},
			{Type: "named", Name: "--dir", Input: registry.Input{Required: true, Format: "filepath"}},
			{Type: "named", Name: "--optional"},
			{Type: "named", Name: "--quiet", Input: registry.Input{Format: "boolean", Default: "true"}},
			{Type: "positional", ValueHint: "database_url", Input: registry.Input{Required: true, Secret: true}},
		},
		Environment: []registry.KeyValue{
			{Name: "HAS", Input: registry.Input{Required: true}},
			{Name: "LACKS", Input: registry.Input{Required: true}},
			{Name: "OPTIONAL"},
			{Name: "HELD"},
			{Name: "CHOICE", Input: registry.Input{Choices: []string{"a", "b"}}},
		},
	}
	p := &Plan{opts: Options{
		Environ: []string{"HAS=1", "HELD=2"},
		Values:  map[string]string{"--dir": "/data", "CHOICE": "b", "database_url": "postgres://me:${PW}@host/db"},
	}}
	in, err := p.readInputs(&pkg, true)
	must(t, err)
	if got, want := mustJSON(t, in.args), `["run $${NOT} fast","--dir","/data","--quiet","postgres://me:${PW}@host/db"]`; got != want {
		t.Errorf("the arguments are %s and not %s", got, want)
	}
	if got, want := mustJSON(t, in.env), `{"CHOICE":"b","HAS":"${HAS}"}`; got != want {
		t.Errorf("the variables are %s and not %s", got, want)
	}
	if got, want := mustJSON(t, in.draftEnv), `{"CHOICE":"b","HAS":"${HAS}","LACKS":"${LACKS}"}`; got != want {
		t.Errorf("the draft is %s and not %s", got, want)
	}
	var names []string
	for _, n := range p.Needs {
		names = append(names, n.Name)
	}
	if want := []string{"mode", "--dir", "--optional", "--quiet", "database_url", "HAS", "LACKS", "OPTIONAL", "HELD", "CHOICE"}; !slices.Equal(names, want) {
		t.Errorf("it needs %v and not %v", names, want)
	}
	if len(p.Missing) != 1 || p.Missing[0].Name != "LACKS" {
		t.Errorf("missing are %+v", p.Missing)
	}
}

// configured is an entry as the configuration understands it, where the secret OTHER
// is stored and is "hush-hush".
func configured(t *testing.T, e *Entry) *messages.ServerSpec {
	t.Helper()
	home := t.TempDir()
	_, err := secrets.New(filepath.Join(home, ".metamcp")).Set(t.Context(), "OTHER", "hush-hush", true)
	must(t, err)
	file := filepath.Join(home, "mcp.json")
	must(t, os.WriteFile(file, []byte(`{"mcpServers": {"x": `+mustJSON(t, e)+`}}`), 0o600))
	cfg, err := config.Load(config.Sources{Files: []string{file}, Home: home, Cwd: home, Environ: []string{"TOKEN=mine"}})
	must(t, err)
	spec := cfg.Server("x")
	if spec == nil || spec.Err != nil {
		t.Fatalf("the entry %s is %+v; %v", mustJSON(t, e), spec, cfg.Problems)
	}
	return spec
}

// What a publisher writes in pieces is no reference where the pieces meet.
func TestAPublisherAssemblesNoReference(t *testing.T) {
	pieces := map[string]registry.Input{"a": {Default: "$"}, "b": {Default: "{secret:OTHER}"}, "token": {}}
	values := []struct{ in, want string }{
		{"{a}{b}", "${secret:OTHER}"},
		{"{a}{secret:OTHER}", "${secret:OTHER}"},
		{"${b}", "${secret:OTHER}"},
		{"{a}{a}{b}", "$${secret:OTHER}"},
		{"${a}{b}", "$${secret:OTHER}"},
		{"{token}{b}", "mine ${secret:OTHER}"},
		{"{b}{token}{token}", "{secret:OTHER}mine ${TOKEN} $"},
		{"{none}${a}", "{none}$$"},
	}
	given := Options{StateDir: t.TempDir(), Values: map[string]string{"token": "${TOKEN} $"}}
	for _, v := range values {
		s := &registry.Server{Name: "io.github.test/remote", Remotes: []registry.Transport{{
			Type: "streamable-http", URL: "https://mcp.example.com/" + v.in, Variables: pieces,
			Headers: []registry.KeyValue{{Name: "X-Key", Input: registry.Input{Value: v.in, Variables: pieces}}},
		}}}
		opts := given
		if !strings.Contains(v.in, "{token}") {
			opts.Values = nil
		}
		p, err := Resolve(t.Context(), opts, s, trust.Candidates(s)[0], trust.ServerName)
		must(t, err)
		spec := configured(t, &p.Entry)
		if spec.Headers["X-Key"] != v.want || spec.URL != "https://mcp.example.com/"+v.want || spec.Filled["secret:OTHER"] != "" {
			t.Errorf("%s: %s means %q at %q", v.in, mustJSON(t, p.Entry), spec.Headers["X-Key"], spec.URL)
		}
	}

	m := &manifest{UserConfig: map[string]userOption{"a": {Default: []byte(`"{secret:OTHER}"`)}, "b": {Default: []byte(`"$"`)}}}
	f := filling{m: m, given: map[string]string{"token": "${TOKEN} $", "open": "${"}, folder: "/final"}
	for in, want := range map[string]string{
		"$${user_config.a}":                        "${secret:OTHER}",
		"${user_config.b}${user_config.a}":         "${secret:OTHER}",
		"${user_config.b}{secret:OTHER}":           "${secret:OTHER}",
		"${user_config.token}{secret:OTHER}":       "mine ${secret:OTHER}",
		"${user_config.open}secret:OTHER}":         "${secret:OTHER}",
		"${secret:OTHER}":                          "${secret:OTHER}",
		"${__dirname}:${user_config.token}${none}": "/final:mine $${none}",
	} {
		e := Entry{Command: "x", Args: []string{f.text(in)}}
		if spec := configured(t, &e); spec.Args[0] != want || spec.Filled["secret:OTHER"] != "" {
			t.Errorf("%s: %s means %q", in, mustJSON(t, e), spec.Args[0])
		}
	}
}

func TestValuesAreHeldToWhatIsAskedFor(t *testing.T) {
	const token = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	for _, c := range []struct {
		need  Need
		value string
		ok    bool
	}{
		{Need{Name: "LEVEL"}, "debug", true},
		{Need{Name: "LEVEL"}, "a\nb", false},
		{Need{Name: "LEVEL"}, strings.Repeat("x", maxValue+1), false},
		{Need{Name: "LEVEL", Choices: []string{"a"}}, "b", false},
		{Need{Name: "LEVEL", Choices: []string{"a"}}, "${B}", true},
		{Need{Name: "PORT", Format: "number"}, "80", true},
		{Need{Name: "PORT", Format: "number"}, "eighty", false},
		{Need{Name: "ON", Format: "boolean"}, "true", true},
		{Need{Name: "ON", Format: "boolean"}, "yes", false},
		{Need{Name: "X", Secret: true}, "plain", false},
		{Need{Name: "X", Secret: true}, "${X}", true},
		{Need{Name: "X", Secret: true}, "${secret:X}", true},
		{Need{Name: "X", Secret: true}, "Bearer ${X}", true},
		{Need{Name: "X", Secret: true}, "${X}" + token, false},
		{Need{Name: "WHERE"}, token, false},
		{Need{Name: "API_KEY"}, "hunter2hunter2", false},
	} {
		err := checkValue(&c.need, c.value)
		if (err == nil) != c.ok {
			t.Errorf("%+v = %q: %v", c.need, c.value, err)
		}
		if err != nil && (strings.Contains(err.Error(), token) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("the value is in %v", err)
		}
	}
}

func TestIntegrity(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"sha512-a", "sha512-a", true},
		{"sha512-a", "sha512-b", false},
		{"sha512-a sha1-x", "sha1-x", false},
		{"sha1-x", "sha1-x", true},
		{"sha512-a sha512-b", "sha512-b", true},
		{"sha512-a", "", false},
		{"", "", false},
	} {
		if got := sameIntegrity(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: %v", c.a, c.b, got)
		}
	}
}

func TestPrograms(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"plain.js": "x", "a": "#!/usr/bin/env node\nx", "b": "#!/usr/bin/env -S node --experimental-x\n", "c": "#!/bin/sh\n", "d": "\x7fELF", "e.js": "#!/bin/sh\n", "f.js": "",
	} {
		must(t, os.WriteFile(dir+"/"+name, []byte(text), 0o700))
	}
	for name, want := range map[string]string{"plain.js": "true", "a": "true", "b": "true --experimental-x", "c": "false", "d": "false", "e.js": "false", "f.js": "true"} {
		options, byNode, err := shebang(dir + "/" + name)
		must(t, err)
		got := "false"
		if byNode {
			got = strings.TrimSpace("true " + strings.Join(options, " "))
		}
		if got != want {
			t.Errorf("%s: %s and not %s", name, got, want)
		}
	}
}
