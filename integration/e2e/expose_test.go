package e2e_test

import (
	"encoding/json"
	"testing"

	"github.com/metamcp/metamcp/integration/npmservers"
	"github.com/metamcp/metamcp/integration/testkit"
)

// exposing starts metamcp with what it exposes of its servers; args may say more.
func exposing(t testing.TB, modern bool, entries servers, expose string, args ...string) *client {
	t.Helper()
	p := testkit.StartHost(t, testkit.Host{Servers: entries, Args: append([]string{"serve", "--expose=" + expose}, args...), Path: testkit.PlainBinary(t)})
	c := &client{Lines: p.Lines(t), p: p, t: t, modern: modern}
	if !modern {
		c.Handshake()
	}
	return c
}

func everythingEntry(t testing.TB) map[string]any {
	t.Helper()
	return map[string]any{"command": npmservers.Node(t), "args": []string{npmservers.Entry(t, npmservers.Everything), "stdio"}}
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
			via := exposing(t, s.modern, servers{"x": s.entry(t)}, "tools,prompts,resources", "--expose-prefix=none", "--expose-only")
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
