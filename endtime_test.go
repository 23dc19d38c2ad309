package metamcp

import (
	"testing"
	"time"
)

// TestEndTime: it is that of the server that may take longest, and knows the children
// of a configuration before.
func TestEndTime(t *testing.T) {
	t.Parallel()
	const beyond = 12 * time.Second // SIGKILL and the margin
	r := openReloading(t, `{"mcpServers":{}}`)
	for _, c := range []struct {
		servers   string
		now, ever time.Duration
	}{
		{`{}`, 1550 * time.Millisecond, 1550 * time.Millisecond},
		{`{"a":{"command":"none","stopGraceMs":200}}`, 1550 * time.Millisecond, 1550 * time.Millisecond},
		{`{"a":{"command":"none","stopGraceMs":70000},"b":{"command":"none","stopGraceMs":120000},"c":{"command":"none"}}`, 2 * time.Minute, 2 * time.Minute},
		{`{"b":{"command":"none","stopGraceMs":120000,"disabled":true}}`, 1550 * time.Millisecond, 2 * time.Minute},
	} {
		r.write(`{"mcpServers":` + c.servers + `}`)
		r.reload()
		if got := EndTime(r.e.Config()) - beyond; got != c.now {
			t.Errorf("%s: %v beside what all have, want %v", c.servers, got, c.now)
		}
		if got := r.e.EndTime() - beyond; got != c.ever {
			t.Errorf("%s after those before: %v beside what all have, want %v", c.servers, got, c.ever)
		}
	}
}
