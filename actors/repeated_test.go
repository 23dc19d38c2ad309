package actors

import (
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// TestACallBehindOthersThatKill waits for its turn while calls before it end one child
// after the other, and has it.
func TestACallBehindOthersThatKill(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, func(s *messages.ServerSpec) { s.MaxInFlight = 1 })
	r.ok("a")
	var deadly []*pendingCall
	for range 3 {
		deadly = append(deadly, r.start("a", "do", doArgs{Do: "die"}))
	}
	innocent := r.start("a", "do", doArgs{})
	for _, p := range deadly {
		r.wantCode(r.wait(p), messages.CodeToolExecution)
	}
	r.wantResult(r.wait(innocent))
	if n := r.f.started("a"); n != 4 {
		t.Errorf("%d starts, want one for each call that kills and one more", n)
	}
}
