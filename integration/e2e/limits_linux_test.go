package e2e_test

import (
	"strings"
	"testing"

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
