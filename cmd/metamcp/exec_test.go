package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metamcp/metamcp"
)

// What stands behind -- is the script's own.
func TestExecArguments(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	cfg, script := filepath.Join(dir, "mcp.json"), filepath.Join(dir, "script.js")
	for file, text := range map[string]string{
		cfg: `{"mcpServers": {}}`, script: "#!/usr/bin/env -S metamcp exec\nreturn JSON.stringify(args)",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	exec := func(given ...string) (string, error) {
		var out bytes.Buffer
		cmd := newRoot(&out)
		cmd.SetArgs(append([]string{"exec", "--config", cfg}, given...))
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		err := cmd.ExecuteContext(t.Context())
		return strings.TrimSpace(out.String()), err
	}
	for want, given := range map[string][]string{
		`[]`:                      {script},
		`["a","--timeout","b c"]`: {script, "--", "a", "--timeout", "b c"},
		`["-","--"]`:              {script, "--timeout", "60s", "--", "-", "--"},
	} {
		if got, err := exec(given...); err != nil || got != want {
			t.Errorf("%q: %s, %v, want %s", given, got, err, want)
		}
	}
	for want, given := range map[string][]string{
		"needs one FILE":         {},
		"exec needs one FILE":    {"--", script},
		`stand behind "--"`:      {script, "more.js"},
		`script stand behind "-`: {script, "more.js", "--", "a"},
	} {
		_, err := exec(given...)
		var usage usageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", given, err, want)
		}
	}
	long := make([]string, 20)
	for i := range long {
		long[i] = strings.Repeat("x", 100_000)
	}
	if _, err := exec(append([]string{script, "--"}, long...)...); err == nil || !strings.Contains(err.Error(), "2000000 bytes") {
		t.Errorf("two megabytes of arguments: %v", err)
	}
}

// What a script that does not begin, or says nothing, is told in the shell.
func TestExecSaysWhatItRefuses(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	cfg := filepath.Join(dir, "mcp.json")
	files := map[string]string{"one.js": "return 1", "nothing.js": "1", "typed.js": "const a: number = 1; return a", "broken.js": "return \"\xff\""}
	files["mcp.json"] = `{"mcpServers": {"off": {"command": "true", "disabled": true}}}`
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		file  string
		flags []string
		want  string
		fails bool
	}{
		{"one.js", []string{"--attach", "require"}, "--attach require is for clients", true},
		{"one.js", []string{"--servers", "off"}, "disabled", true},
		{"one.js", []string{"--servers", "nope", "--json"}, `"code": "SERVER_NOT_FOUND"`, true},
		{"broken.js", nil, "no valid UTF-8", true},
		{"typed.js", nil, "This is TypeScript", true},
		{"none.js", nil, "there is no script " + filepath.Join(dir, "none.js"), true},
		{"", nil, "the script cannot be read from " + dir + ":", true},
		{"nothing.js", nil, "The script returned nothing", false},
		{"nothing.js", []string{"--json"}, `"notes": [`, false},
	} {
		var out bytes.Buffer
		cmd := newRoot(&out)
		cmd.SetArgs(append([]string{"exec", "--config", cfg, filepath.Join(dir, tt.file)}, tt.flags...))
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		err := cmd.ExecuteContext(t.Context())
		said := out.String()
		if err != nil {
			said += err.Error()
		}
		if (err != nil) != tt.fails || !strings.Contains(said, tt.want) {
			t.Errorf("%s %q: %v, %s, want %s", tt.file, tt.flags, err, said, tt.want)
		}
	}
}

// A script that is empty is told of in the words of the shell.
func TestExecWithoutAScript(t *testing.T) {
	emptyConfig(t)
	t.Setenv("HOME", t.TempDir())
	for _, asJSON := range []bool{false, true} {
		var out, stderr bytes.Buffer
		cmd := newRoot(&stderr)
		cmd.SetArgs(append([]string{"exec", "-"}, map[bool][]string{true: {"--json"}}[asJSON]...))
		cmd.SetIn(strings.NewReader(""))
		cmd.SetOut(&out)
		err := cmd.ExecuteContext(t.Context())
		var failure *metamcp.Error
		hint := out.String()
		if errors.As(err, &failure) {
			hint = shellHint(failure.Hint, "", "")
		}
		if err == nil || !strings.Contains(hint, "standard input with `metamcp exec -`") {
			t.Errorf("--json %t: %v\n%s", asJSON, err, hint)
		}
	}
}
