package config

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tailscale/hujson"
)

const (
	schemaFile = "../../docs/config.schema.json"
	docsFile   = "../../docs/CONFIGURATION.md"
)

func TestPublishedSchemaIsCurrent(t *testing.T) {
	if *update {
		if err := os.WriteFile(schemaFile, Schema(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, Schema()) {
		t.Errorf("%s is out of date; run go test ./integration/config -update", schemaFile)
	}
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(SchemaID)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func valid(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	std, err := hujson.Standardize([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(std))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

func TestSchemaAgreesWithLoad(t *testing.T) {
	s := compiled(t)
	good := []string{
		`{}`, `{"inputs": [1], "$schema": "x"}`,
		`{"mcpServers": {"a": {"command": "x", "args": ["y"], "env": {"A": "b"}, "inheritEnv": ["A_*"], "lifecycle": "keep-alive", "alwaysAllow": []}}}`,
		`{"servers": {"a": {"type": "streamable-http", "url": "https://x.example", "headers": {"A": "b"}, "oauth": {"x": 1}, "lifecycle": {"mode": "ephemeral"}}}}`,
		`{"metamcp": {"pool": {"poolSize": 1}, "trace": true, "expose": "tools", "toolRules": [{"pattern": "a"}, {"pattern": ["b"], "enabled": true, "server": "s", "tags": ["t"]}]}}`,
	}
	for _, text := range good {
		if err := valid(t, s, text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if cfg := newWorld(t).load(text); len(cfg.Problems) > 0 {
			t.Errorf("%s: %s", text, texts(cfg.Problems))
		}
	}
	bad := []string{
		`{"mcpServers": []}`, `{"mcpServers": {"": {"command": "x"}}}`, `{"mcpServers": {"a": {}}}`, `{"mcpServers": {"a": {"command": "x", "url": "https://x.example"}}}`,
		`{"mcpServers": {"a": {"command": "x", "args": "y"}}}`, `{"mcpServers": {"a": {"command": "x", "env": {"A": 1}}}}`,
		`{"mcpServers": {"a": {"command": "x", "timeoutMs": 0}}}`, `{"mcpServers": {"a": {"command": "x", "retry": "often"}}}`,
		`{"mcpServers": {"a": {"command": "x", "lifecycle": {"idleTimeoutMs": 1}}}}`, `{"mcpServers": {"a": {"command": "x", "maxInstances": 0}}}`,
		`{"servers": {"a": {"url": "https://x.example", "type": "ws"}}}`,
		`{"metamcp": {"pool": {"poolSize": 0}}}`, `{"metamcp": {"pool": {"poolSize": "1"}}}`, `{"metamcp": {"pool": 1}}`, `{"metamcp": {"search": {"ranking": "x"}}}`,
		`{"metamcp": {"scrub": 1}}`,
	}
	for _, text := range bad {
		if valid(t, s, text) == nil {
			t.Errorf("%s is valid by the schema", text)
		}
		if cfg := newWorld(t).load(text); len(cfg.Problems) == 0 {
			t.Errorf("%s: Load found no problem", text)
		}
	}
	for _, text := range []string{`{"metamcp": {"poool": {}}}`, `{"metamcp": {"toolRules": [{"enabled": true}]}}`, `{"metamcp": {"toolRules": [{"pattern": "a", "enable": true}]}}`} {
		if valid(t, s, text) == nil {
			t.Errorf("%s is valid by the schema", text)
		}
	}
}

// TestSchemaHasEveryKey follows each key's path through the published schema.
func TestSchemaHasEveryKey(t *testing.T) {
	s := compiled(t)
	for _, k := range Keys() {
		node := s.Properties["metamcp"]
		for part := range strings.SplitSeq(k.Path, ".") {
			if node = node.Properties[part]; node == nil {
				t.Fatalf("%s is not in the schema", k.Path)
			}
		}
		if node.Description != k.Doc {
			t.Errorf("%s is described as %q", k.Path, node.Description)
		}
		if k.Type == TypeInt || k.Type == TypeMillis {
			low, _ := node.Minimum.Float64()
			high, _ := node.Maximum.Float64()
			if low != float64(k.Min) || high != float64(k.Max) {
				t.Errorf("%s ranges from %v to %v", k.Path, low, high)
			}
		}
		if (node.Default == nil) != (k.Default == "") {
			t.Errorf("%s: the default is missing or too much", k.Path)
		}
	}
	server := s.Properties["mcpServers"].AdditionalProperties.(*jsonschema.Schema).Ref
	if len(server.Properties) != len(EntryKeys()) {
		t.Errorf("a server has %d members in the schema, want %d", len(server.Properties), len(EntryKeys()))
	}
}

func TestDocumentationIsCurrent(t *testing.T) {
	text, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for name, table := range map[string]string{"entries": EntriesMarkdown(), "keys": KeysMarkdown()} {
		begin := strings.Index(want, "<!-- "+name+":begin")
		end := strings.Index(want, "<!-- "+name+":end -->")
		if begin < 0 || end < begin {
			t.Fatalf("%s has no place for %s", docsFile, name)
		}
		from := begin + strings.IndexByte(want[begin:], '\n') + 1
		want = want[:from] + table + want[end:]
	}
	if *update {
		if err := os.WriteFile(docsFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("%s is out of date; run go test ./integration/config -update", docsFile)
	}
}

// TestDocumentationExample loads the first example of the documentation.
func TestDocumentationExample(t *testing.T) {
	text, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```jsonc\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("no example")
	}
	cfg := newWorld(t, "HOME=/h", "ISSUES_TOKEN=t").load(example)
	clean(t, cfg)
	if len(cfg.Servers) != 2 || len(cfg.Settings.ToolRules) != 1 {
		t.Errorf("got %+v", cfg)
	}
	if err := valid(t, compiled(t), example); err != nil {
		t.Error(err)
	}
}
