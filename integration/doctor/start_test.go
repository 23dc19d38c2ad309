package doctor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/doctor"
	"github.com/metamcp/metamcp/messages"
)

func TestStartResult(t *testing.T) {
	tools := func(n, skipped int) *messages.Toolset {
		return &messages.Toolset{Tools: make([]*messages.Tool, n), Skipped: skipped, Version: "2025-11-25", ServerName: "demo", ServerVersion: "1.2"}
	}
	for _, c := range []struct {
		name    string
		start   doctor.Start
		patient time.Duration // startupTimeoutMs
		want    want
	}{
		{"well", doctor.Start{Took: 1234 * time.Millisecond, Tools: tools(3, 0)}, 0,
			want{"server.start", "it", doctor.OK, "3 tools in 1.23s, protocol 2025-11-25 (demo 1.2)", ""}},
		{"one tool", doctor.Start{Tools: tools(1, 0)}, 0, want{"server.start", "it", doctor.OK, "1 tool in 0s", ""}},
		{"none", doctor.Start{Tools: tools(0, 0)}, 0, want{"server.tools", "it", doctor.Warn, "0 tools", "metamcp logs it"}},
		{"odd ones", doctor.Start{Tools: tools(2, 3)}, 0, want{"server.tools", "it", doctor.Warn, "2 tools", "maintainer"}},
		{"slow, and it has time", doctor.Start{Took: 6 * time.Second, Tools: tools(1, 0)}, 30 * time.Second,
			want{"server.slow", "it", doctor.Warn, "1 tool in 6s", "(30000) is enough"}},
		{"slow, nearly too slow", doctor.Start{Took: 20 * time.Second, Tools: tools(1, 0)}, 30 * time.Second,
			want{"server.slow", "it", doctor.Warn, "in 20s", `"startupTimeoutMs": 60000 into the entry at f:1 (it is 30000 now)`}},
		{"slow, and it may have been downloaded", doctor.Start{Spec: &messages.ServerSpec{Command: "/opt/bin/npx", Args: []string{"-y", "x"}}, Took: 6 * time.Second, Tools: tools(1, 0)}, 30 * time.Second,
			want{"server.slow", "it", doctor.Warn, "1 tool in 6s", "Try it once more: metamcp test it. If it is as slow again: Install it"}},
		{"failed", doctor.Start{Took: time.Second, Err: &messages.Error{Class: messages.ClassAuth, Message: "no key", Hint: "set a key", Details: []string{"401"}}}, 0,
			want{"server.start", "it", doctor.Fail, "[auth] no key (after 1s)", "set a key"}},
		{"failed without a hint", doctor.Start{Err: &messages.Error{Message: "odd"}}, 0, want{"server.start", "it", doctor.Fail, "odd", "by hand, with the entry at f:1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.start.Spec == nil {
				c.start.Spec = &messages.ServerSpec{}
			}
			c.start.Spec.Name, c.start.Spec.Source, c.start.Spec.StartupTimeout = "it", "f:1", c.patient
			r := c.start.Result()
			if may := strings.Contains(r.Why, "later starts are faster"); may != (c.start.Spec.Command != "") || may && !strings.HasPrefix(r.Why, "npx downloads") {
				t.Errorf("why: %s", r.Why)
			}
			if r.Group != doctor.GroupServers {
				t.Errorf("group %s", r.Group)
			}
			expect(t, []doctor.Result{r}, c.want)
		})
	}
}
