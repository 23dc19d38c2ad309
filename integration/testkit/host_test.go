package testkit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/metamcp/metamcp/integration/testkit"
)

func demoHost(t *testing.T) *testkit.Process {
	t.Helper()
	return testkit.StartHost(t, testkit.Host{Servers: map[string]map[string]any{"demo": testkit.DemoServer(t, "--name", "d")}})
}

// The tests of metamcp itself are elsewhere; this one shows that they can rely
// on a host that is built, configured, spoken to in three ways and gone again.
func TestHost(t *testing.T) {
	t.Run("line by line", func(t *testing.T) {
		p := demoHost(t)
		l := p.Lines(t)
		l.Handshake()
		const params = `{"name":"mcp_call","arguments":{"server":"demo","tool":"echo","args":{"text":"hello"}}}`
		if result, failure := l.Call("1", "tools/call", params); !strings.Contains(string(result), `"text":"hello"`) {
			t.Errorf("result %s, error %s", result, failure)
		}
		// The child got the mark through its configuration, not from the host.
		below, err := testkit.Descendants(p.PID)
		if err != nil || len(testkit.Live(below)) == 0 {
			t.Errorf("below the host: %v, error %v", below, err)
		}
		p.CloseStdin()
		if code := p.Wait(t, time.Minute); code != 0 {
			t.Errorf("exit status %d", code)
		}
		testkit.AwaitMarkedGone(t, time.Minute, p.Mark)
	})
	for name, connect := range map[string]func(*testkit.Process, testing.TB, ...client.ClientOption) *client.Client{
		"legacy client": (*testkit.Process).Legacy, "modern client": (*testkit.Process).Modern,
	} {
		t.Run(name, func(t *testing.T) {
			tools, err := connect(demoHost(t), t).ListTools(t.Context(), mcp.ListToolsRequest{})
			if err != nil || len(tools.Tools) == 0 {
				t.Errorf("tools %v, error %v", tools, err)
			}
		})
	}
}
