package e2e_test

import (
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

// A limit that is too small for a server's start is named first, whether the server
// hangs or breaks down.
func TestLimitTooSmallForAStart(t *testing.T) {
	limit := map[string]any{"memoryMB": 8}
	hangs := map[string]any{"command": "/bin/sh", "args": []string{"-c", "while :; do read line; done"}, "startupTimeoutMs": 300}
	breaks := map[string]any{"command": "/bin/sh", "args": []string{"-c", "kill -ABRT $$"}}
	c := host(t, servers{"hangs": with(hangs, "limits", limit), "breaks": with(breaks, "limits", limit), "free": hangs}, nil)
	for _, server := range []string{"hangs", "breaks"} {
		if r := c.refuse(server, "x", "{}", string(messages.CodeConnection)); !strings.HasPrefix(r.Hint, "limits.memoryMB of server ") || !strings.Contains(r.Hint, "raise that first") {
			t.Errorf("%s: %s", server, r)
		}
	}
	if r := c.refuse("free", "x", "{}", string(messages.CodeConnection)); strings.Contains(r.Hint, "limits.memoryMB") {
		t.Errorf("without a limit: %s", r)
	}
}

// A limit that ends a server during a call is named beside what is said of the call.
func TestLimitDuringACall(t *testing.T) {
	c := host(t, servers{"small": with(testkit.DemoServer(t), "limits", map[string]any{"memoryMB": 200})}, nil)
	c.echoes("small", "before")
	if r := c.refuse("small", "big", `{"bytes":60000000}`, string(messages.CodeToolExecution)); !strings.Contains(r.Hint, "Check what") || !strings.Contains(r.Hint, "limits.memoryMB") {
		t.Errorf("%s", r)
	}
}
