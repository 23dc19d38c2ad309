package conformance_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/metamcp/metamcp/integration/npmservers"
	"github.com/metamcp/metamcp/integration/testkit"
)

// judged are the scenarios of the suite that mean something for a server with
// four tools, with the checks in them that need tools of the suite's own.
var judged = map[string]map[string][]string{
	"2025-11-25": {
		"server-initialize": nil, "logging-set-level": nil, "ping": nil, "tools-list": nil, "server-sse-multiple-streams": nil,
		"dns-rebinding-protection": nil, "server-session-lifecycle": nil, "server-sse-polling": nil,
	},
	"2026-07-28": {
		// It calls test_missing_capability, test_streaming_elicitation and test_logging_tool.
		"server-stateless": {
			"sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400",
			"sep-2575-http-server-no-independent-requests-on-stream", "sep-2575-server-no-log-without-loglevel",
		},
		"tools-list": nil, "server-sse-multiple-streams": nil, "dns-rebinding-protection": nil, "http-header-validation": nil,
		"sep-2164-resource-not-found": nil, "input-required-result-unsupported-methods": nil, "input-required-result-ignore-extra-params": nil,
		"input-required-result-validate-input": nil, "input-required-result-missing-input-response": nil,
		// There are no prompts to list.
		"caching": {"sep-2549-prompts-list-caching-hints"},
	},
}

// metamcp over HTTP does what the protocol's own suite asks of servers.
func TestConformanceAsAServer(t *testing.T) {
	t.Parallel()
	url, _ := testkit.StartHTTPHost(t, testkit.Host{Path: testkit.PlainBinary(t), Servers: map[string]map[string]any{"demo": testkit.DemoServer(t)}})
	for revision, scenarios := range judged {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			dir := judge(t, url, revision)
			for name, known := range scenarios {
				expect(t, name, checksOf(t, dir, "server-"+name), known)
			}
		})
	}
}

// judge runs the scenarios of the suite for servers, and returns the folder of
// what it finds.
func judge(t *testing.T, url, revision string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	run(t, dir, nil, "server", "--url", url, "--requirements", revision)
	return dir
}

// What the protocol's own suite finds good in a server it finds good in metamcp in
// front of it: the server of the older protocol, over stdio, to clients of both. Each
// suite has a host of its own: what a server logs over stdio while it has calls of
// several clients goes to none of them.
func TestConformanceInFrontOfAServer(t *testing.T) {
	t.Parallel()
	fixture, err := filepath.Abs(filepath.Join("testdata", "conformance.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	sdk := filepath.Join(npmservers.Dir(t), "node_modules", "@modelcontextprotocol", "sdk")
	node := npmservers.Node(t)
	inFront := func(t *testing.T) (url string) {
		t.Helper()
		url, _ = testkit.StartHTTPHost(t, testkit.Host{
			Path: testkit.PlainBinary(t), Servers: map[string]map[string]any{"fixture": {"command": node, "args": []string{fixture, sdk, "stdio"}, "startupTimeoutMs": 180_000}},
			Settings: map[string]any{"expose": []string{"tools", "prompts", "resources"}, "exposePrefix": "none", "exposeOnly": true},
		})
		return url
	}
	t.Run("2025-11-25", func(t *testing.T) {
		t.Parallel()
		port := testkit.FreePort(t)
		testkit.StartListening(t, port, testkit.Command{Path: node, Args: []string{fixture, sdk, "http", port}})
		direct, via := judge(t, "http://127.0.0.1:"+port+"/mcp", "2025-11-25"), judge(t, inFront(t), "2025-11-25")
		names := ran(t, direct)
		if len(names) < 20 {
			t.Fatalf("the suite judges %q", names)
		}
		for _, name := range names {
			if !slices.ContainsFunc(checksOf(t, direct, name), check.fails) {
				expect(t, name, checksOf(t, via, name), nil)
			}
		}
	})
	t.Run("2026-07-28", func(t *testing.T) {
		t.Parallel()
		via := judge(t, inFront(t), "2026-07-28")
		for _, name := range []string{
			"completion-complete", "tools-list", "tools-call-simple-text", "tools-call-image", "tools-call-audio", "tools-call-embedded-resource",
			"tools-call-mixed-content", "tools-call-error", "tools-call-with-progress", "server-sse-multiple-streams", "resources-list", "resources-read-text",
			"resources-read-binary", "resources-templates-read", "sep-2164-resource-not-found", "prompts-list", "prompts-get-simple", "prompts-get-with-args",
			"prompts-get-embedded-resource", "prompts-get-with-image", "dns-rebinding-protection", "caching", "http-header-validation", "json-schema-2020-12",
		} {
			expect(t, name, checksOf(t, via, "server-"+name), nil)
		}
	})
}
