package actors

import (
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// TestWaitForAJudgeIsBounded: a call that waits for a worker to check it is
// ended by its own deadline and by its caller.
func TestWaitForAJudgeIsBounded(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.ok("a")
	for range maxJudges {
		r.e.judges <- struct{}{}
	}
	r.wantCode(r.do("a", "typed", doArgs{}, func(c *messages.Call) { c.Deadline = time.Now().Add(20 * time.Millisecond) }), messages.CodeExecutionTimeout)
	given := r.start("a", "nothere", doArgs{})
	r.e.Cancel(given.call, "enough")
	r.wantCode(r.wait(given), messages.CodeCancelled)
	patient := r.start("a", "nothere", doArgs{})
	r.ok("a") // what needs no judge does not notice
	for range maxJudges {
		<-r.e.judges
	}
	r.wantCode(r.wait(patient), messages.CodeToolNotFound)
}
