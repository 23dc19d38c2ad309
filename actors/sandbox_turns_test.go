package actors

import (
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// One client does not get all places for scripts, and the one that has fewest goes
// next.
func TestScriptsTakeTurns(t *testing.T) {
	s := &sandboxActor{settings: SandboxSettings{Concurrent: 4}, slots: map[uint64]*slot{}}
	sessions := uint64(0)
	run := func(sharer uint64) *sandboxRun { // each in a session of its own
		sessions++
		return &sandboxRun{session: sessions, sharer: sharer}
	}
	for n := range uint64(3) {
		s.slots[n] = &slot{n: n, state: workerRunning, run: run(1)}
	}
	s.waiting = []*sandboxRun{run(1), run(1)}
	if got := s.nextRun(); got != -1 {
		t.Errorf("the fourth place is given to the client that has three: %d", got)
	}
	s.waiting = append(s.waiting, run(2))
	if got := s.nextRun(); got != 2 {
		t.Errorf("place %d goes next, want that of the other client", got)
	}
	s.slots[0].run, s.slots[1].run = run(2), run(2)
	if got := s.nextRun(); got != 0 {
		t.Errorf("place %d goes next, want the first of the client that has one script running", got)
	}
}

// Scripts whose process is being started take no room of those that wait for a turn.
func TestRoomForScriptsThatBegin(t *testing.T) {
	r := newRig(t, nil)
	r.s.programs["hang"] = func(s *fakeScript) { s.hang() }
	places := sandboxSettings().Concurrent
	var all []*pendingRun
	for range places + maxWaitingRuns {
		all = append(all, r.script("hang"))
	}
	r.refusedRun(r.script("hang"), messages.CodeSandbox)
	for i, run := range all {
		select {
		case <-run.ended:
			t.Fatalf("script %d of %d was turned away", i, len(all))
		default:
		}
	}
}

// TestRoomForScriptsIsShared has a client fill all the room from many sessions:
// another's script takes the place of its newest, which is told so.
func TestRoomForScriptsIsShared(t *testing.T) {
	r := newRig(t, nil)
	r.s.programs["hang"] = func(s *fakeScript) { s.hang() }
	const greedy, modest = "one", "other"
	by := func(client string) *pendingRun {
		s, err := r.e.OpenSession(nil)
		if err != nil {
			t.Fatal(err)
		}
		s.BelongsTo(client)
		return r.script("hang", func(run *messages.Run) { run.Session = s.ID() })
	}
	for range 2 {
		by(greedy)
	}
	r.s.until(t, "two scripts run", func() bool { return r.s.scripts() == 2 })
	var last *pendingRun
	for range maxWaitingRuns {
		last = by(greedy)
	}
	other := by(modest)
	err := r.refusedRun(last, messages.CodeSandbox)
	if !err.Retryable || err.Hint == "" {
		t.Errorf("error %+v", err)
	}
	r.refusedRun(by(greedy), messages.CodeSandbox)
	select {
	case <-other.ended:
		t.Error("the other's script was turned away")
	default:
	}
}
