package e2e_test

import (
	"path/filepath"
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
	node, port := npmservers.Node(t), freePort(t)
	listening(t, port, testkit.Command{Path: node, Args: []string{fixture, "http", port}})
	url := "http://127.0.0.1:" + port + "/mcp"
	direct, _ := verdicts(t, url, "2026-07-28")
	for way, entry := range map[string]map[string]any{
		"stdio": {"command": node, "args": []string{fixture, "stdio"}, "roots": true},
		"http":  {"url": url, "roots": true},
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			via, said := verdicts(t, transparentHTTP(t, servers{"asking": entry}), "2026-07-28")
			judged := 0
			for name, passes := range direct {
				if !strings.HasPrefix(name, "input-required-") || !passes {
					continue
				}
				judged++
				if !via[name] {
					t.Errorf("%s passes without metamcp alone\n%s", name, explained(said, name))
				}
			}
			const all = 14
			if judged != all {
				t.Errorf("%d scenarios pass at the server itself, not %d: %v", judged, all, direct)
			}
		})
	}
}
