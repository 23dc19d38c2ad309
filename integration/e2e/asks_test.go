package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/testkit"
)

// The tools of server-everything that ask their client work behind metamcp as
// without it, over a pipe and over HTTP.
func TestEverythingAsksItsClient(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"stdio", "streamableHttp", "sse"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			entry := everythingEntry(t)
			if how != "stdio" {
				port := testkit.FreePort(t)
				everythingOver(t, how, port)
				entry = map[string]any{"url": "http://127.0.0.1:" + port + map[string]string{"streamableHttp": "/mcp", "sse": "/sse"}[how]}
			}
			entry["roots"] = true
			c := rawHost(t, servers{"x": entry}, nil)
			if _, failure := c.ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}},"clientInfo":{"name":"e2e","version":"1"}}`); failure != nil {
				t.Fatalf("initialize: %s", failure)
			}
			c.Send([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
			answer := func(method, result string) {
				t.Helper()
				var q testkit.Line
				raw, err := c.Match(patience, func(l testkit.Line) bool { return l.Method == method && l.ID != nil })
				if err == nil {
					err = json.Unmarshal(raw, &q)
				}
				if err != nil {
					t.Fatalf("%s does not come: %v", method, err)
				}
				c.Send([]byte(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":` + result + `}`))
			}
			id := c.start("x", "trigger-elicitation-request", `{}`)
			answer("elicitation/create", `{"action":"accept","content":{"name":"Ada of the tests","check":true}}`)
			if text := string(c.resultOf(id)); !strings.Contains(text, "Ada of the tests") {
				t.Errorf("elicitation: %s", text)
			}
			id = c.start("x", "trigger-sampling-request", `{"prompt":"say it","maxTokens":10}`)
			answer("sampling/createMessage", `{"role":"assistant","model":"nobody","content":{"type":"text","text":"it is said"}}`)
			if text := string(c.resultOf(id)); !strings.Contains(text, "it is said") {
				t.Errorf("sampling: %s", text)
			}
		})
	}
}
