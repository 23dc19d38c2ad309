package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/config"
)

// secretsCommand runs `metamcp secrets …` without a keyring.
func secretsCommand(t *testing.T, state, stdin string, words ...string) (stdout, stderr string, err error) {
	t.Helper()
	c := &common{logLevel: "warn"}
	root := &cobra.Command{Use: "metamcp", SilenceUsage: true, SilenceErrors: true}
	c.overlay = config.RegisterFlags(root.PersistentFlags())
	root.AddCommand(newSecrets(c))
	var out, errOut bytes.Buffer
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&errOut)
	root.SetArgs(append([]string{"secrets"}, append(words, "--state-dir", state)...))
	err = root.ExecuteContext(t.Context())
	return out.String(), errOut.String(), err
}

func TestSecretsCommand(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("SOME_TOKEN", "hush-from-env")
	file := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers": {"one": {"command": "x", "env": {"T": "${secret:A}"}}, "two": {"command": "x", "args": ["${secret:A}", "${secret:GONE}"]}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("METAMCP_CONFIG", file)
	state := t.TempDir()
	for _, step := range []struct {
		stdin string
		args  []string
		want  string // of stdout, or of stderr and the error after "error: "
	}{
		{"", []string{"list"}, "GONE  missing  -        two"},
		{"hush-hush\n", []string{"set", "A", "--file"}, "A is stored in " + filepath.Join(state, "secrets.json") + "; write ${secret:A}"},
		{"", []string{"set", "B", "--file", "--from-env", "SOME_TOKEN"}, "B is stored in "},
		{"", []string{"set", "B", "--from-env", "NOT_SET_ANYWHERE"}, "error: the environment variable NOT_SET_ANYWHERE is not set"},
		{"", []string{"set", "B"}, "error: standard input is empty"},
		{"x", []string{"set", "../B"}, "error: a secret's name has letters"},
		{"x", []string{"set", "B", "value"}, "error: set takes one NAME, and not 2"},
		{strings.Repeat("hush", 1<<15), []string{"set", "B"}, "error: the value has more than 64 KiB"},
		{"", []string{"list"}, "one, two"},
		{"", []string{"list"}, "B     file     "},
		{"", []string{"remove", "A"}, "A is removed; still used by: one, two"},
		{"", []string{"remove", "A"}, "error: A was not stored"},
		{"", []string{"remove", "B"}, "B is removed\n"},
	} {
		out, errOut, err := secretsCommand(t, state, step.stdin, step.args...)
		want, fails := strings.CutPrefix(step.want, "error: ")
		got := out
		if fails {
			got = errOut
			if err != nil {
				got += err.Error()
			}
		}
		if (err != nil) != fails || !strings.Contains(got, want) {
			t.Errorf("%v: %q, %v; want %q", step.args, got, err, step.want)
		}
		if strings.Contains(out+errOut, "hush") || err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%v shows a value: %q, %q, %v", step.args, out, errOut, err)
		}
		var usage usageError
		if strings.Contains(step.want, "error: accepts") && !errors.As(err, &usage) {
			t.Errorf("%v is no error of usage: %v", step.args, err)
		}
	}
	if _, _, err := secretsCommand(t, state, "two\nlines\r\n", "set", "A", "--file"); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Sources{Files: []string{file}, Environ: []string{"METAMCP_STATE_DIR=" + state}})
	if err != nil || cfg.Secrets()["A"] != "two\nlines" {
		t.Errorf("the configuration gets %q, %v", cfg.Secrets()["A"], err)
	}
	out, _, err := secretsCommand(t, state, "", "list", "--json")
	var rows []secretRow
	if err != nil || json.Unmarshal([]byte(out), &rows) != nil || len(rows) != 2 || rows[0].In != "file" || len(rows[0].UsedBy) != 2 || rows[1].Name != "GONE" || rows[1].In != "" {
		t.Errorf("%s, %v", out, err)
	}
}
