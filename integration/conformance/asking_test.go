package conformance_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/npmservers"
	"github.com/metamcp/metamcp/integration/testkit"
)

// What a server of the newer protocol asks for in its results passes metamcp as the
// protocol's own suite wants it, whichever way leads to the server.
func TestConformanceInFrontOfAServerThatAsks(t *testing.T) {
	t.Parallel()
	fixture, err := filepath.Abs(filepath.Join("testdata", "asking.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	const revision = "2026-07-28"
	node, port := npmservers.Node(t), testkit.FreePort(t)
	testkit.StartListening(t, port, testkit.Command{Path: node, Args: []string{fixture, "http", port}})
	url := "http://127.0.0.1:" + port + "/mcp"
	direct := judge(t, url, revision)
	names := slices.DeleteFunc(ran(t, direct), func(name string) bool {
		return !strings.HasPrefix(name, "server-input-required-") || slices.ContainsFunc(checksOf(t, direct, name), check.fails)
	})
	const all = 14
	if len(names) != all {
		t.Fatalf("%d scenarios pass at the server itself, not %d: %q", len(names), all, names)
	}
	for way, entry := range map[string]map[string]any{
		"stdio": {"command": node, "args": []string{fixture, "stdio"}, "roots": true, "startupTimeoutMs": 180_000},
		"http":  {"url": url, "roots": true},
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			front, _ := testkit.StartHTTPHost(t, testkit.Host{
				Path: testkit.PlainBinary(t), Servers: map[string]map[string]any{"asking": entry},
				Settings: map[string]any{"expose": []string{"tools", "prompts", "resources"}, "exposePrefix": "none", "exposeOnly": true},
			})
			via := judge(t, front, revision)
			for _, name := range names {
				expect(t, name, checksOf(t, via, name), nil)
			}
		})
	}
}
