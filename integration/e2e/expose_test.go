package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/npmservers"
	"github.com/metamcp/metamcp/integration/testkit"
)

// exposing starts metamcp with what it exposes of its servers; args may say more.
func exposing(t testing.TB, modern bool, entries servers, expose string, args ...string) *client {
	t.Helper()
	args = append([]string{"serve", "--expose=" + expose, "--discover-timeout=150s"}, args...)
	p := testkit.StartHost(t, testkit.Host{Servers: entries, Args: args, Path: testkit.PlainBinary(t)})
	c := &client{Lines: p.Lines(t), p: p, t: t, modern: modern}
	if !modern {
		c.Handshake()
	}
	return c
}

func everythingEntry(t testing.TB) map[string]any {
	t.Helper()
	return nodeEntry(npmservers.Node(t), npmservers.Entry(t, npmservers.Everything), "stdio")
}

// nodeEntry is a server that Node.js runs. On a busy machine it starts for more than half a
// minute, and no test of one asks how fast it is.
func nodeEntry(node string, args ...string) map[string]any {
	return map[string]any{"command": node, "args": args, "startupTimeoutMs": 180_000}
}

// items reads all pages of a list, each item by its key, and says in which order
// they came.
func (c *client) items(method, member, key string) (byKey map[string]json.RawMessage, order []string) {
	c.t.Helper()
	byKey = map[string]json.RawMessage{}
	params := `{}`
	for {
		result, failure := c.ask(method, params)
		if failure != nil {
			c.t.Fatalf("%s: %s", method, failure)
		}
		var page map[string]json.RawMessage
		var list []json.RawMessage
		if err := json.Unmarshal(result, &page); err != nil {
			c.t.Fatal(err)
		}
		if err := json.Unmarshal(page[member], &list); err != nil {
			c.t.Fatalf("%s: %v in %.300s", method, err, result)
		}
		for _, raw := range list {
			var item map[string]any
			if err := json.Unmarshal(raw, &item); err != nil {
				c.t.Fatal(err)
			}
			name := item[key].(string)
			if byKey[name] != nil {
				c.t.Errorf("%s lists %.200q twice", method, name)
			}
			byKey[name] = raw
			order = append(order, name)
		}
		if page["nextCursor"] == nil {
			return byKey, order
		}
		params = `{"cursor":` + string(page["nextCursor"]) + `}`
	}
}

// sameItems compares a list with the one of a direct connection, byte for byte.
func sameItems(t testing.TB, via, bare *client, method, member, key string) {
	t.Helper()
	want, _ := bare.items(method, member, key)
	got, order := via.items(method, member, key)
	if len(want) == 0 || len(got) != len(want) {
		t.Errorf("%s has %d items, want %d", method, len(got), len(want))
	}
	for name, raw := range want {
		same(t, method+" "+name, raw, got[name])
	}
	for i := 1; i < len(order); i++ {
		if order[i-1] >= order[i] {
			t.Errorf("%s is not in order: %q before %q", method, order[i-1], order[i])
		}
	}
}

// With the servers' own names metamcp in front of one server is that server.
func TestExposedServerIsThatOfADirectConnection(t *testing.T) {
	t.Parallel()
	for _, s := range subjects(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			bare := direct(t, s.entry(t), s.modern)
			entry := s.entry(t)
			entry["ask"] = false // as the direct client has it: some servers have more tools for one that can be asked
			via := exposing(t, s.modern, servers{"x": entry}, "tools,prompts,resources", "--expose-prefix=none", "--expose-only")
			sameItems(t, via, bare, "tools/list", "tools", "name")
			info := ""
			if s.modern {
				info = serverInfo(t, via)
			}
			for _, c := range s.calls {
				result, failure := bare.ask("tools/call", toolParams(c.tool, c.args))
				viaResult, viaFailure := via.ask("tools/call", toolParams(c.tool, c.args))
				if s.modern {
					viaResult = withoutSplices(t, result, viaResult, info)
				}
				same(t, c.tool+c.args, result, viaResult)
				same(t, c.tool+c.args, failure, viaFailure)
			}
		})
	}
}

// Tools of several servers have names that no two share and that every client
// takes; those that a rule closed are neither listed nor run.
func TestExposedToolsOfSeveralServers(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 90)
	tools := tempFile(t, "tools.json")
	if err := os.WriteFile(tools, []byte(`{"only.here":{"name":"only.here","inputSchema":{"type":"object"}},"`+long+`":{"name":"`+long+`","inputSchema":{"type":"object"}},"mcp_call":{"name":"mcp_call","inputSchema":{"type":"object"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	entries := servers{"a": testkit.DemoServer(t, "--name", "a"), "b c": testkit.DemoServer(t, "--name", "b", "--tools-file", tools), "dead": testkit.DemoServer(t, "--exit-at-start", "1")}
	rules := `--tool-rules=[{"pattern":"image","enabled":false}]`

	c := exposing(t, false, entries, "tools", rules)
	// A call before any list finds its server.
	if got := textOf(t, c.resultOf(c.request("tools/call", toolParams("b_c__whoami", `{}`)))); !strings.Contains(got, `"b"`) {
		t.Errorf("b_c__whoami answers %s", got)
	}
	list, order := c.items("tools/list", "tools", "name")
	if want := []string{"mcp_call", "mcp_discover", "mcp_execute", "mcp_provision"}; !slices.Equal(order[:4], want) || !slices.IsSorted(order[4:]) {
		t.Errorf("the list begins with %q", order[:6])
	}
	proper := regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	for name := range list {
		if !proper.MatchString(name) || strings.Contains(name, "image") {
			t.Errorf("%s is listed", name)
		}
	}
	for _, name := range []string{"a__echo", "b_c__echo", "b_c__only_here", "b_c__mcp_call"} {
		if list[name] == nil {
			t.Errorf("%s is not listed in %q", name, order)
		}
	}
	for _, name := range order {
		if strings.HasPrefix(name, "b_c__nnn") {
			if got := textOf(t, c.resultOf(c.request("tools/call", toolParams(name, `{}`)))); got != "called "+long {
				t.Errorf("%s answers %s", name, got)
			}
		}
	}
	if r := refusal(t, c.resultOf(c.request("tools/call", toolParams("a__image", `{}`)))); r.Code != "TOOL_DISABLED" {
		t.Errorf("a closed tool: %s", r)
	}
	if r := refusal(t, c.resultOf(c.request("tools/call", toolParams("a__echo", `{"text":7}`)))); r.Code != "VALIDATION_ERROR" || !strings.Contains(r.Message, `"a__echo"`) || strings.Contains(r.Hint, "mcp_discover") {
		t.Errorf("wrong arguments: %s", r)
	}
	if result, failure := c.ask("tools/call", toolParams("a__none", `{}`)); result != nil || !strings.Contains(string(failure), "-32602") {
		t.Errorf("a tool that is not there: %s %s", result, failure)
	}
	if _, failure := c.ask("tools/call", toolParams("a__ehco", `{}`)); !strings.Contains(string(failure), `nearest: \"a__echo\"`) {
		t.Errorf("a name with a slip: %s", failure)
	}
	testkit.Eventually(t, patience, func() error {
		if log := c.p.Stderr.String(); !strings.Contains(log, "it cannot be reached") || !strings.Contains(log, "server=dead") {
			return fmt.Errorf("nobody is told why a server has no tools: %s", log)
		}
		return nil
	})
	if result, failure := c.ask("tools/list", `{"cursor":"after:x"}`); result != nil || !strings.Contains(string(failure), "-32602") {
		t.Errorf("a cursor of nobody: %s %s", result, failure)
	}

	plain := exposing(t, true, entries, "tools", rules, "--expose-prefix=none")
	list, order = plain.items("tools/list", "tools", "name")
	for name, want := range map[string]bool{"only.here": true, "a__echo": true, "b_c__echo": true, "echo": false, "mcp_call": true, "b_c__mcp_call": true, long: false} {
		if (list[name] != nil) != want {
			t.Errorf("without the servers' names %s is listed: %v; %q", name, !want, order)
		}
	}
	if !slices.ContainsFunc(order, func(name string) bool { return len(name) == 64 && strings.HasPrefix(name, long[:40]) }) {
		t.Errorf("a tool whose name is too long for clients is not listed under a shorter one: %q", order)
	}
	testkit.Eventually(t, patience, func() error {
		if n := strings.Count(plain.p.Stderr.String(), "under the same name"); n != 1 {
			return fmt.Errorf("it is told %d times that names clash", n)
		}
		return nil
	})
}

// A tool that came is told and listed, to clients of both eras.
func TestExposedToolsChange(t *testing.T) {
	t.Parallel()
	const method = "notifications/tools/list_changed"
	for name, modern := range map[string]bool{"legacy": false, "modern": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := exposing(t, modern, servers{"a": testkit.DemoServer(t, "--era", name)}, "tools")
			listen := ""
			if modern {
				listen = c.request("subscriptions/listen", `{"notifications":{"toolsListChanged":true,"promptsListChanged":true}}`)
				c.Notification("notifications/subscriptions/acknowledged")
			}
			c.items("tools/list", "tools", "name")
			c.resultOf(c.request("tools/call", toolParams("a__add_tool", `{"name":"later"}`)))
			note := c.Notification(method)
			if modern && !strings.Contains(string(note), `"io.modelcontextprotocol/subscriptionId":`+listen) {
				t.Errorf("the notification says not whose it is: %s", note)
			}
			if list, order := c.items("tools/list", "tools", "name"); list["a__later"] == nil {
				t.Errorf("the tool is not listed: %q", order)
			}
		})
	}
}

// What changed behind the user's back is neither listed nor run under its own
// name.
func TestExposedToolsAreHeld(t *testing.T) {
	t.Parallel()
	r := newRenegade(t, "hold")
	begin := func() *client {
		return host(t, servers{"x": testkit.DemoServer(t, "--tools-file", r.tools, "--calls-file", r.calls)},
			map[string]any{"stateDir": r.state, "trust": map[string]any{"pins": r.mode}, "expose": "tools", "exposePrefix": "none"})
	}
	first := begin()
	if list, _ := first.items("tools/list", "tools", "name"); list["echo"] == nil {
		t.Fatal("echo is not listed")
	}
	r.pinned()
	r.end(first)
	r.turn()
	second := begin()
	second.call("x", "add", `{"a":1,"b":2}`) // the server runs
	list, order := second.items("tools/list", "tools", "name")
	if list["echo"] != nil || list["fresh"] != nil || list["add"] == nil {
		t.Errorf("listed are %q", order)
	}
	for _, name := range []string{"echo", "fresh"} {
		if got := refusal(t, second.resultOf(second.request("tools/call", toolParams(name, `{"text":"x"}`)))); got.Code != "TOOL_DISABLED" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := r.called(); slices.Contains(got, "echo") || slices.Contains(got, "fresh") {
		t.Errorf("the server was told to run %q", got)
	}
}
