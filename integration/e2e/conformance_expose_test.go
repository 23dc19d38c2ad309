package e2e_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/npmservers"
	"github.com/metamcp/metamcp/integration/testkit"
)

// verdict is a line of the suite's summary.
var verdict = regexp.MustCompile(`(?m)^([✓✗]) ([\w-]+): (\d+) passed, (\d+) failed`)

// verdicts are the scenarios of the suite for servers: which pass at the server of
// this URL.
func verdicts(t *testing.T, url, requirements string) (passed map[string]bool, said string) {
	t.Helper()
	node, suite := npmservers.Conformance(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, suite, "server", "--url", url, "--requirements", requirements, "-o", t.TempDir())
	cmd.WaitDelay = time.Second
	out, _ := cmd.CombinedOutput() // its status says that not all pass
	passed = map[string]bool{}
	for _, m := range verdict.FindAllStringSubmatch(string(out), -1) {
		passed[m[2]] = m[1] == "✓"
	}
	if len(passed) < 20 {
		t.Fatalf("the suite judges %d scenarios\n%s", len(passed), out)
	}
	return passed, string(out)
}

// transparentHTTP starts metamcp over HTTP with the servers' own names, and
// returns its URL.
func transparentHTTP(t *testing.T, entries servers) string {
	t.Helper()
	home, port := t.TempDir(), freePort(t)
	testkit.WriteConfig(t, filepath.Join(home, "mcp.json"), testkit.NewMark(), entries, map[string]any{
		"expose": []string{"tools", "prompts", "resources"}, "exposePrefix": "none", "exposeOnly": true, "stateDir": filepath.Join(home, "state"),
	})
	listening(t, port, testkit.Command{
		Path: testkit.PlainBinary(t), Args: []string{"serve", "--config", filepath.Join(home, "mcp.json"), "--http", "127.0.0.1:" + port},
		Env: []string{"HOME=" + home},
	})
	return "http://127.0.0.1:" + port + "/mcp"
}

// What the protocol's own suite finds good in a server it finds good in metamcp in
// front of it: the server of the older protocol, over stdio, to clients of both.
func TestConformanceInFrontOfAServer(t *testing.T) {
	t.Parallel()
	fixture, err := filepath.Abs(filepath.Join("testdata", "conformance.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	sdk := filepath.Join(npmservers.Dir(t), "node_modules", "@modelcontextprotocol", "sdk")
	node := npmservers.Node(t)
	url := transparentHTTP(t, servers{"fixture": {"command": node, "args": []string{fixture, sdk, "stdio"}}})

	t.Run("2025-11-25", func(t *testing.T) {
		t.Parallel()
		port := freePort(t)
		listening(t, port, testkit.Command{Path: node, Args: []string{fixture, sdk, "http", port}})
		direct, _ := verdicts(t, "http://127.0.0.1:"+port+"/mcp", "2025-11-25")
		via, said := verdicts(t, url, "2025-11-25")
		for name, passes := range direct {
			if passes && !via[name] {
				t.Errorf("%s passes without metamcp alone\n%s", name, explained(said, name))
			}
		}
	})
	t.Run("2026-07-28", func(t *testing.T) {
		t.Parallel()
		via, said := verdicts(t, url, "2026-07-28")
		for _, name := range []string{
			"completion-complete", "tools-list", "tools-call-simple-text", "tools-call-image", "tools-call-audio", "tools-call-embedded-resource",
			"tools-call-mixed-content", "tools-call-error", "tools-call-with-progress", "server-sse-multiple-streams", "resources-list", "resources-read-text",
			"resources-read-binary", "resources-templates-read", "sep-2164-resource-not-found", "prompts-list", "prompts-get-simple", "prompts-get-with-args",
			"prompts-get-embedded-resource", "prompts-get-with-image", "dns-rebinding-protection", "caching", "http-header-validation", "json-schema-2020-12",
		} {
			if !via[name] {
				t.Errorf("%s fails\n%s", name, explained(said, name))
			}
		}
	})
}

// explained is what the suite says of one scenario.
func explained(said, name string) string {
	m := regexp.MustCompile(`Results saved to (\S*server-` + regexp.QuoteMeta(name) + `-\d\S*)`).FindStringSubmatch(said)
	if m == nil {
		return said
	}
	raw, err := os.ReadFile(filepath.Join(m[1], "checks.json"))
	var checks []struct{ ID, Status, ErrorMessage string }
	if err != nil || json.Unmarshal(raw, &checks) != nil {
		return said
	}
	checks = slices.DeleteFunc(checks, func(c struct{ ID, Status, ErrorMessage string }) bool { return c.Status != "FAILURE" })
	var lines []string
	for _, c := range checks {
		lines = append(lines, c.ID+": "+c.ErrorMessage)
	}
	return strings.Join(lines, "\n")
}
