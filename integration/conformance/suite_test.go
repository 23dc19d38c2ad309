package conformance_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/npmservers"
)

// run runs the suite, which leaves its judgement in the folder. Its status says
// whether all passes, which is not what is asked here.
func run(t *testing.T, dir string, env []string, args ...string) (said string) {
	t.Helper()
	node, suite := npmservers.Conformance(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, append(append([]string{suite}, args...), "-o", dir)...)
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// check is what the suite says of one thing in a scenario.
type check struct{ ID, Status, ErrorMessage string }

func (c check) fails() bool {
	return !slices.Contains([]string{"SUCCESS", "INFO", "SKIPPED", "WARNING"}, c.Status)
}

// checksOf reads what the suite said of a scenario; nil where it did not run. For
// servers the suite puts "server-" before the name.
func checksOf(t *testing.T, dir, name string) []check {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(name)+"-20*", "checks.json"))
	if err != nil || len(files) > 1 {
		t.Fatalf("%s: %v, %v", name, files, err)
	}
	if len(files) == 0 {
		return nil
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	checks := []check{}
	if err := json.Unmarshal(text, &checks); err != nil {
		t.Fatalf("%s: %v", files[0], err)
	}
	return checks
}

// dated is the name of a scenario's folder.
var dated = regexp.MustCompile(`^(.+)-20\d\d-`)

// ran are the names of the scenarios for servers that were run, as [checksOf]
// takes them.
func ran(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "server-*", "checks.json"))
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(files))
	for _, file := range files {
		names = append(names, dated.FindStringSubmatch(filepath.Base(filepath.Dir(file)))[1])
	}
	return names
}

// expect wants all checks of a scenario to pass but those that are known to fail,
// and these to fail.
func expect(t *testing.T, name string, checks []check, known []string) {
	t.Helper()
	if checks == nil {
		t.Errorf("%s was not run", name)
		return
	}
	var failed []string
	for _, c := range checks {
		if !c.fails() {
			continue
		}
		if failed = append(failed, c.ID); !slices.Contains(known, c.ID) {
			t.Errorf("%s: %s: %s %s", name, c.ID, c.Status, c.ErrorMessage)
		}
	}
	for _, k := range known {
		if !slices.Contains(failed, k) {
			t.Errorf("%s: %s passes now; take it out of what is known to fail", name, k)
		}
	}
}
