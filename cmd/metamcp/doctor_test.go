package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/doctor"
)

func TestPrintDoctor(t *testing.T) {
	results := []doctor.Result{
		{ID: "config.files", Group: doctor.GroupConfiguration, Status: doctor.OK, Found: "a file", Details: []string{"1. a"}},
		{ID: "server.start", Group: doctor.GroupServers, Subject: "one", Status: doctor.Fail, Found: "odd\x1b[2J\ntext", Why: "reasons", Fix: "a remedy", Details: []string{"last\x1bwords"}},
		{ID: "server.start", Group: doctor.GroupServers, Subject: strings.Repeat("long", 20), Status: doctor.Skipped, Found: "not now"},
		{ID: "state.modes", Group: doctor.GroupState, Status: doctor.OK, Found: "closed now", Fixed: true},
	}
	show := func(l look, verbose bool) string {
		var out bytes.Buffer
		if err := printDoctor(&out, results, doctor.Summarize(results), l, verbose); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	plain := show(look{}, false)
	want := `CONFIGURATION
  ok    config.files                          a file

SERVERS
  FAIL  server.start one                      odd�[2J text
        why  reasons
        fix  a remedy
          | last�words
  skip  server.start ` + strings.Repeat("long", 20) + `  not now

STATE
  done  state.modes                           closed now

1 failed: 2 ok, 0 warnings, 1 failed, 1 skipped, 1 mended
`
	if plain != want {
		t.Errorf("printed\n%s\nwant\n%s", plain, want)
	}
	coloured := show(look{width: 80, colours: true}, false)
	if !strings.Contains(coloured, redInk+"FAIL"+plainInk) || !strings.Contains(coloured, greenInk+"ok  "+plainInk) {
		t.Errorf("colours: %q", coloured)
	}
	for _, ink := range []string{redInk, greenInk, yellowInk, plainInk} {
		coloured = strings.ReplaceAll(coloured, ink, "")
	}
	if coloured != want {
		t.Errorf("colours change the text:\n%s", coloured)
	}
	if all := show(look{}, true); !strings.Contains(all, "| 1. a") {
		t.Errorf("verbose:\n%s", all)
	}
}

func TestSummaryLine(t *testing.T) {
	for _, c := range []struct {
		sum  doctor.Summary
		want string
	}{
		{doctor.Summary{OK: 2}, "all is well: 2 ok, "},
		{doctor.Summary{OK: 2, Warn: 1}, "it works, with warnings: 2 ok, 1 warning, "},
		{doctor.Summary{Warn: 1, Fail: 2, Fixed: 1}, "2 failed: 0 ok, 1 warning, 2 failed, 0 skipped, 1 mended"},
	} {
		if got := (look{}).summary(c.sum); !strings.HasPrefix(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// doctorCommand runs `metamcp doctor …` in this process; what needs real
// servers is tested with the real program in integration/doctor.
func doctorCommand(ctx context.Context, words ...string) (stdout, stderr string, err error) {
	var out, said bytes.Buffer
	c := &common{logLevel: "warn", stderr: &said}
	root := &cobra.Command{Use: "metamcp", SilenceUsage: true, SilenceErrors: true}
	root.PersistentFlags().StringArrayVarP(&c.files, "config", "c", nil, "")
	c.overlay = config.RegisterFlags(root.PersistentFlags())
	root.AddCommand(newDoctor(c))
	root.SetOut(&out)
	root.SetErr(&said)
	root.SetArgs(append([]string{"doctor"}, words...))
	err = root.ExecuteContext(ctx)
	return out.String(), said.String(), err
}

func TestDoctorCommand(t *testing.T) {
	table, err := os.ReadFile(filepath.Join("..", "..", "docs", "DOCTOR.md"))
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	t.Chdir(home)
	file := filepath.Join(home, "mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers": {"off": {"command": "x", "disabled": true}, "broken": {}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var out string
	out, _, err = doctorCommand(t.Context(), "-c", file, "--json", "--no-start")
	var status statusError
	if !errors.As(err, &status) || int(status) != exitFailed {
		t.Errorf("a broken entry: %v", err)
	}
	var rep doctorReport
	if err := json.Unmarshal([]byte(out), &rep); err != nil || rep.Summary.Fail != 1 || rep.Version == "" {
		t.Errorf("%v, %s", err, out)
	}
	var order []doctor.Group
	for _, r := range rep.Results {
		if len(order) == 0 || order[len(order)-1] != r.Group {
			order = append(order, r.Group)
		}
	}
	if !slices.Equal(order, doctor.Groups()) {
		t.Errorf("groups %q", order)
	}
	for _, r := range rep.Results { // scripts go by the ids
		if !strings.Contains(string(table), "\n| `"+r.ID+"` |") {
			t.Errorf("docs/DOCTOR.md lacks %s", r.ID)
		}
	}
	// What belongs to a server that was not asked for does not count.
	if out, _, err = doctorCommand(t.Context(), "-c", file, "--server", "off"); err != nil || !strings.Contains(out, "it is turned off at "+file+":1") {
		t.Errorf("%v\n%s", err, out)
	}
	dies := filepath.Join(home, "dies.json")
	if err := os.WriteFile(dies, []byte(`{"mcpServers": {"dies": {"command": "go", "args": ["no-such-command"]}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _, err = doctorCommand(t.Context(), "-c", dies); !errors.As(err, &status) || !strings.Contains(out, "fix  The end of its stderr is shown here.") {
		t.Errorf("a hint is not in the words of the shell: %v\n%s", err, out)
	}
	if _, _, err = doctorCommand(t.Context(), "-c", file, "--server", "nobody"); !errors.As(err, new(usageError)) {
		t.Errorf("an unknown server: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out, said, err := doctorCommand(ctx, "-c", file); !errors.As(err, &status) || int(status) != exitInterrupted || out != "" || !strings.Contains(said, "interrupted") {
		t.Errorf("interrupted: %v, %q, %q", err, out, said)
	}
}
