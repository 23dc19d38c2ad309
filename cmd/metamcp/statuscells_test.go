package main

import (
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// TestStatusCountsWhatLives: a connection that has failed is no connection; it has a
// place until its processes are gone.
func TestStatusCountsWhatLives(t *testing.T) {
	failed, lives := messages.Instance{State: "FAILED"}, messages.Instance{State: "IDLE", PID: 7}
	st := &messages.HostStatus{
		Pool: messages.PoolStatus{Size: 20, Used: 3, Idle: 1},
		Servers: []messages.HostServer{
			{Name: "gone", State: "FAILED", Breaker: "open"},
			{Name: "lost", State: "FAILED", Breaker: "open", Instances: []messages.Instance{failed}},
			{Name: "both", State: "IDLE", Breaker: "closed", Instances: []messages.Instance{lives, {State: "CLOSED"}}},
			{Name: "evicted", State: "IDLE", Breaker: "closed", Instances: []messages.Instance{{State: "CLOSED"}}},
		},
	}
	var out strings.Builder
	if err := printStatus(&out, st, time.Now(), look{}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"pool": "3 of 20 places, 1 idle, 0 of 0 waiting, 0 evicted, 3 being ended",
		"gone": "failed open ? 0 0", "lost": "failed open ? 0, 1 ending 0",
		"both": "idle closed ? 1, 1 ending 0", "evicted": "not started closed ? 0, 1 ending 0",
	}
	for line := range strings.Lines(out.String()) {
		fields := strings.Fields(line)
		if len(fields) == 0 || want[fields[0]] == "" {
			continue
		}
		if got := strings.Join(fields[1:], " "); got != want[fields[0]] {
			t.Errorf("%s: %q, want %q", fields[0], got, want[fields[0]])
		}
		delete(want, fields[0])
	}
	if len(want) > 0 {
		t.Errorf("not said: %v in\n%s", want, out.String())
	}
}
