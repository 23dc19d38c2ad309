//go:build unix

package e2e_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/metamcp/metamcp/integration/testkit"
)

// TestNobodyReadsStderr: most clients do not. Whatever the host logs, it
// answers, takes changes of its configuration over and ends.
func TestNobodyReadsStderr(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		args []string
		end  func(c *client)
	}{
		{"end of stdin", nil, func(c *client) { c.p.CloseStdin() }},
		{"a signal", nil, func(c *client) { c.p.Signal(c.t, syscall.SIGTERM) }},
		{"with a trace", []string{"--trace=stderr"}, func(c *client) { c.p.CloseStdin() }},
		{"at the most talkative", []string{"--log-level=debug"}, func(c *client) { c.p.CloseStdin() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			entries := servers{"good": testkit.DemoServer(t)}
			for i := range 300 { // each is an error in the log, together more than a pipe holds
				entries[fmt.Sprintf("broken%d-%s", i, strings.Repeat("x", 100))] = map[string]any{"args": []string{strings.Repeat("y", 200)}}
			}
			p := testkit.StartHost(t, testkit.Host{Servers: entries, Args: tt.args, UnreadStderr: true})
			c := &client{Lines: p.Lines(t), p: p, t: t}
			c.Handshake()
			for range 100 {
				c.echo("good", "well")
			}
			entries["late"] = testkit.DemoServer(t)
			testkit.WriteConfig(t, p.ConfigFile(), p.Mark, entries, nil)
			testkit.Eventually(t, patience, func() error {
				if text := string(c.call("late", "echo", `{"text":"here"}`)); !strings.Contains(text, `"text":"here"`) {
					return fmt.Errorf("the new server says %.200s", text)
				}
				return nil
			})
			tt.end(c)
			if code := p.Wait(t, instantly); code != 0 && len(tt.args) == 0 {
				t.Errorf("exit status %d", code)
			}
			testkit.AwaitMarkedGone(t, goneWithin, p.Mark)
		})
	}
}

// TestStderrLosesItsReader: a host whose log nobody can read any more answers
// nevertheless, and ends in order.
func TestStderrLosesItsReader(t *testing.T) {
	t.Parallel()
	entries := func(t *testing.T) servers {
		t.Helper()
		return servers{"good": testkit.DemoServer(t), "broken": {"command": "/nowhere/at/all"}}
	}
	// losesIt has h write to its log once nobody reads that, and end.
	losesIt := func(t *testing.T, h *testkit.Process, c *client, end func()) {
		t.Helper()
		c.echo("good", "before")
		h.CloseStderr()
		c.call("broken", "any", `{}`) // which is said in the log
		c.echo("good", "after")
		end()
		if code := h.Wait(t, instantly); code != 0 {
			t.Errorf("exit status %d", code)
		}
	}
	t.Run("with its client", func(t *testing.T) {
		t.Parallel()
		c := host(t, entries(t), nil)
		losesIt(t, c.p, c, c.p.CloseStdin)
		testkit.AwaitMarkedGone(t, goneWithin, c.p.Mark)
	})
	t.Run("in the foreground", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, entries(t), nil)
		h := p.host()
		losesIt(t, h, p.client(), func() { h.Signal(t, syscall.SIGTERM) })
		testkit.AwaitMarkedGone(t, goneWithin, p.mark)
	})
}
