package gallery

import (
	"bytes"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/metamcp/metamcp/integration/registry"
)

// The data has the shape of its schema, and says nothing twice. That the
// packages are there was looked up when they were added; tests ask nobody.
func TestGallery(t *testing.T) {
	open := func(text []byte) any {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	text, err := os.ReadFile("gallery.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("gallery.schema.json", open(text)); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("gallery.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(open(data)); err != nil {
		t.Fatal(err)
	}

	names, packages := map[string]bool{}, map[string]bool{}
	if len(All()) < 60 || !slices.IsSortedFunc(All(), func(a, b Entry) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("%d servers, or not by name", len(All()))
	}
	for _, e := range All() {
		if names[e.Name] || packages[string(e.Kind)+e.Package] {
			t.Errorf("%s or its package %s is there twice", e.Name, e.Package)
		}
		names[e.Name], packages[string(e.Kind)+e.Package] = true, true
		if err := registry.CheckPackage(registry.Kind(e.Kind), e.Package, ""); err != nil {
			t.Errorf("%s: %v", e.Name, err)
		}
		for i, in := range e.Inputs {
			if in.Repeated && i < len(e.Inputs)-1 {
				t.Errorf("%s: what follows %s would get no value", e.Name, in.Name)
			}
		}
		var variables []string
		for _, v := range e.Env {
			variables = append(variables, v.Name)
			if v.Required && (v.Default != "" || v.Value != "") {
				t.Errorf("%s: %s is required and has a value", e.Name, v.Name)
			}
		}
		if slices.Sort(variables); len(slices.Compact(variables)) != len(e.Env) {
			t.Errorf("%s has a variable twice", e.Name)
		}
		if e.Program != "" && e.Kind != PyPI {
			t.Errorf("%s: only PyPI has programs of another name", e.Name)
		}
	}
	for _, category := range Categories() {
		if len(In(category)) == 0 {
			t.Errorf("nothing is in %s", category)
		}
	}
	if In("no such") != nil && len(In("no such")) > 0 {
		t.Error("something is in no category")
	}
}

// A text that looks like a key has no place in data that everybody gets.
func TestNoKeys(t *testing.T) {
	if m := regexp.MustCompile(`(sk|ghp|xox[bp]|AKIA|AIza)[-_]?[A-Za-z0-9]{16,}`).Find(data); m != nil {
		t.Errorf("%s", m)
	}
}

func TestFind(t *testing.T) {
	for word, want := range map[string]string{"github": "github", "@playwright/mcp": "playwright", "nobody": ""} {
		got := ""
		if e := Find(word); e != nil {
			got = e.Name
		}
		if got != want {
			t.Errorf("%s: %s", word, got)
		}
	}
	if got := Like("postgres"); !slices.Contains(got, "dbhub") || len(got) > 3 {
		t.Errorf("%q", got)
	}
	if got := Like("playwrihgt"); !slices.Equal(got, []string{"playwright"}) {
		t.Errorf("%q", got)
	}
	if got := Like("zzzzzzzz"); got != nil {
		t.Errorf("%q", got)
	}
	if got := Like(" "); got != nil {
		t.Errorf("%q", got)
	}
}

func TestStart(t *testing.T) {
	for _, c := range []struct {
		name, version string
		values        []string
		want          string
	}{
		{"filesystem", "1.2.3", []string{"/a", "/b"}, "npx -y @modelcontextprotocol/server-filesystem@1.2.3 /a /b"},
		{"filesystem", "1.2.3", nil, "error: filesystem needs FOLDER, a folder that it may read and write: give it with --arg FOLDER"},
		{"playwright", "", []string{"--headless"}, "npx -y @playwright/mcp --headless"},
		{"fetch", "", nil, "uvx mcp-server-fetch"},
		{"fetch", "1.0", nil, "uvx --from mcp-server-fetch==1.0 mcp-server-fetch"},
		{"serena", "", nil, "uvx --from serena-agent serena start-mcp-server"},
		{"git", "", []string{"/repo", "-v"}, "uvx mcp-server-git --repository /repo -v"},
		{"github", "1.0", nil, "docker run -i --rm -e GITHUB_PERSONAL_ACCESS_TOKEN ghcr.io/github/github-mcp-server:1.0"},
	} {
		e := Find(c.name)
		args, err := e.Arguments(c.values)
		command, words := e.Start(c.version, args, slices.Collect(maps.Keys(e.Environment(nil))))
		got := strings.Join(append([]string{command}, words...), " ")
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	env := Find("n8n").Environment(map[string]string{"N8N_API_URL": "http://x"})
	if len(env) != 2 || env["MCP_MODE"] != "stdio" || env["N8N_API_URL"] != "http://x" {
		t.Errorf("%v", env)
	}
	if env := Find("slack").Environment(nil); env["SLACK_MCP_XOXP_TOKEN"] != "${SLACK_MCP_XOXP_TOKEN}" {
		t.Errorf("%v", env)
	}
}
