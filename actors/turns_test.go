package actors

import (
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// A question is taken back once it has been open for long, and only where somebody
// else waits.
func TestQuestionsThatHoldOthersUp(t *testing.T) {
	of := func(session uint64) *messages.Call {
		call := &messages.Call{}
		call.Session = session
		return call
	}
	long := time.Now().Add(-othersPatience)
	for _, tc := range []struct {
		since   time.Time
		waiting uint64 // the session that waits; 0: none
		want    int
	}{{long, 2, 1}, {long, 1, 0}, {long, 0, 0}, {long.Add(time.Second), 2, 0}} {
		c := &connection{asks: asks{open: map[uint64]*ask{1: {p: &pending{call: of(1)}, since: tc.since}}}}
		if tc.waiting != 0 {
			c.waiters = []*messages.Call{of(tc.waiting)}
		}
		if got := c.overstayed(long.Add(othersPatience)); len(got) != tc.want {
			t.Errorf("open since %v, session %d waits: %d questions are taken back, want %d", tc.since, tc.waiting, len(got), tc.want)
		}
	}
}
