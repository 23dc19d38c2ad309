package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/audit"
	"github.com/metamcp/metamcp/integration/config"
)

// auditCommand runs `metamcp audit …` with a state folder of the test's.
func auditCommand(t *testing.T, state string, words ...string) (stdout, stderr string, err error) {
	t.Helper()
	c := &common{logLevel: "warn"}
	root := &cobra.Command{Use: "metamcp", SilenceUsage: true, SilenceErrors: true}
	c.overlay = config.RegisterFlags(root.PersistentFlags())
	root.AddCommand(newAudit(c))
	var out, errOut bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errOut)
	root.SetArgs(append([]string{"audit", "--state-dir", state}, words...))
	err = root.ExecuteContext(t.Context())
	return out.String(), errOut.String(), err
}

func TestAuditCommand(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(empty, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("METAMCP_CONFIG", empty)
	state := t.TempDir()
	path := filepath.Join(state, "audit.jsonl")
	if _, _, err := auditCommand(t, state, "verify"); err == nil || !strings.Contains(err.Error(), "no audit log") {
		t.Fatalf("verify of nothing: %v", err)
	}
	if _, _, err := auditCommand(t, state, "list", "--audit-file", "off"); err == nil || !strings.Contains(err.Error(), "name the FILE") {
		t.Fatalf("list of a log that is off: %v", err)
	}
	day := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	l, err := audit.Open(audit.Options{Path: path, Name: "h", PID: 5, Now: func() time.Time { return day }})
	if err != nil {
		t.Fatal(err)
	}
	l.Append(audit.Entry{Time: day.Add(-48 * time.Hour), Server: "files", Tool: "old", Outcome: "ok"})
	l.Append(audit.Entry{Server: "git", Tool: "log", Request: 4711, Outcome: "tool-error", Client: audit.Client{Name: "x\x1b[2J"}, Retries: 2})
	l.Append(audit.Entry{Kind: audit.KindProvision, Outcome: "ok", Decision: &audit.Decision{Decision: "recommended", Package: "@a/b"}})
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	head, _, err := auditCommand(t, state, "head")
	if err != nil || !strings.HasPrefix(head, "5:") || !strings.HasSuffix(head, "  "+path+"\n") {
		t.Fatalf("head: %q, %v", head, err)
	}
	noted, _, _ := strings.Cut(head, " ")
	none := strings.Repeat("0", 64)

	for _, c := range []struct {
		name   string
		words  []string
		holds  []string
		lacks  []string
		stderr string
		err    string
	}{
		{"whole", []string{"verify"}, []string{path, "whole", "5 (1 to 5) in 1 file\n"}, []string{"BROKEN"}, "", ""},
		{"a file by name", []string{"verify", path}, []string{"whole"}, nil, "", ""},
		{"a noted head", []string{"verify", "--head", noted}, []string{"whole"}, nil, "", ""},
		{"what head printed", []string{"verify", "--head", head + head}, []string{"whole"}, nil, "", ""},
		{"a second line that is another head", []string{"verify", "--head", head + none + "  x"}, []string{"BROKEN", "rewritten"}, nil, "", "exit status 1"},
		{"another head", []string{"verify", "--head", none}, []string{"BROKEN", "rewritten"}, nil, "", "exit status 1"},
		{"no head", []string{"verify", "--head", "x"}, nil, nil, "", "64 hexadecimal digits"},
		{"list", []string{"list"}, []string{"TIME", "files", "  4711     call", "tool-error", "2 retries", "recommended @a/b", "x\uFFFD[2J", "host h, pid 5"}, []string{"\x1b"}, "", ""},
		{"by server", []string{"list", "--server", "git"}, []string{"log"}, []string{"old", "start"}, "", ""},
		{"by tool", []string{"list", "--tool", "old"}, []string{"files"}, []string{"git"}, "", ""},
		{"errors", []string{"list", "--errors"}, []string{"git"}, []string{"files", "recommended", "start"}, "", ""},
		{"since", []string{"list", "--since", "2026-01-02T00:00:00Z"}, []string{"git"}, []string{"files"}, "", ""},
		{"a wrong time", []string{"list", "--since", "yesterday"}, nil, nil, "", "2026-01-31"},
		{"limit", []string{"list", "--limit", "1"}, []string{"stop"}, []string{"git"}, "4 older entries", ""},
		{"a wrong limit", []string{"list", "--limit", "-1"}, nil, nil, "", "--limit"},
		{"two files", []string{"list", "a", "b"}, nil, nil, "", "list takes one FILE, and not 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			stdout, stderr, err := auditCommand(t, state, c.words...)
			if (c.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			for _, want := range c.holds {
				if !strings.Contains(stdout, want) {
					t.Errorf("printed %q, which lacks %q", stdout, want)
				}
			}
			for _, not := range c.lacks {
				if strings.Contains(stdout, not) {
					t.Errorf("printed %q, with %q", stdout, not)
				}
			}
			if !strings.Contains(stderr, c.stderr) {
				t.Errorf("said %q, want %q", stderr, c.stderr)
			}
		})
	}

	log, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copy.jsonl")
	if err := os.WriteFile(copied, log, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _, err := auditCommand(t, state, "verify", copied); err == nil || !strings.Contains(out, "a copy of the log needs it beside it, as copy.jsonl.head") {
		t.Errorf("a copy without its head: %v\n%s", err, out)
	}
	lines, _, err := auditCommand(t, state, "list", "--json", "--server", "git")
	if err != nil || !strings.Contains(string(log), lines) || strings.Count(lines, "\n") != 1 {
		t.Errorf("list --json: %q, %v", lines, err)
	}
	if err := os.WriteFile(path, bytes.Replace(log, []byte("tool-error"), []byte("tool-eror!"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err := auditCommand(t, state, "verify", "--json")
	var status statusError
	if !errors.As(err, &status) || int(status) != exitFailed {
		t.Errorf("verify of a changed log: %v", err)
	}
	var reports []struct {
		Whole   bool
		Entries int
		Breaks  []audit.Break
	}
	if err := json.Unmarshal([]byte(out), &reports); err != nil || len(reports) != 1 || reports[0].Whole || len(reports[0].Breaks) == 0 || reports[0].Breaks[0].Line != 3 {
		t.Errorf("%s, %v", out, err)
	}
}
