package metamcp_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/testkit"
)

// A loop that is slower than the child gets the newest progress, in order, and the result.
func TestSlowLoopGetsTheNewestProgress(t *testing.T) {
	const steps, most = 3000, 1024
	e := open(t, map[string][]string{"demo": nil}, nil)
	got, last, ended := 0, 0, false
	for u, err := range e.Stream(t.Context(), "demo", "slow", json.RawMessage(`{"ms": 10, "steps": 3000}`), metamcp.ExecuteOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Result != nil {
			ended = true
			continue
		}
		var p struct{ Progress int }
		if err := json.Unmarshal(u.Progress, &p); err != nil || p.Progress <= last {
			t.Fatalf("%s after step %d: %v", u.Progress, last, err)
		}
		if got++; got == 1 {
			testkit.Eventually(t, time.Minute, func() error {
				st, err := e.HostStatus(t.Context(), false)
				if err == nil && st.Calls.InFlight > 0 {
					err = errors.New("the child has not answered yet")
				}
				return err
			})
		}
		last = p.Progress
	}
	if !ended || last != steps || got > most+1 {
		t.Errorf("%d updates up to step %d, a result: %v; want the newest %d up to %d", got, last, ended, most, steps)
	}
}
