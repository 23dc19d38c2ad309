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
	free := r.noJudge()
	r.wantCode(r.do("a", "typed", doArgs{}, func(c *messages.Call) { c.Deadline = time.Now().Add(20 * time.Millisecond) }), messages.CodeExecutionTimeout)
	given := r.start("a", "nothere", doArgs{})
	r.e.Cancel(given.call, "enough")
	r.wantCode(r.wait(given), messages.CodeCancelled)
	patient := r.start("a", "nothere", doArgs{})
	r.ok("a") // what needs no judge does not notice
	free(maxJudges)
	r.wantCode(r.wait(patient), messages.CodeToolNotFound)
}

// TestCallWhoseServerChangesOnTheWay: what the server listed is of its entry before that
// changed, and it lists anew; of one that was removed meanwhile it is said.
func TestCallWhoseServerChangesOnTheWay(t *testing.T) {
	r := newRig(t, nil)
	waits := func(name string) (call *pendingCall, free func(n int)) {
		t.Helper()
		r.add(name, nil, nil)
		free = r.noJudge()
		call = r.start(name, "do", doArgs{})
		r.f.eventually(t, "the server has listed its tools, and the call is to be checked", func() bool {
			r.e.judges.mu.Lock()
			defer r.e.judges.mu.Unlock()
			return len(r.e.judges.waiting[0]) == 1
		})
		return call, free
	}
	call, free := waits("a")
	r.change("a", newHash)
	free(maxJudges)
	r.wantResult(r.wait(call))

	call, free = waits("b")
	delete(r.specs, "b")
	r.apply(Change{Removed: []string{"b"}})
	free(maxJudges)
	a := r.wait(call)
	r.wantCode(a, messages.CodeServerNotFound)
	if a.Err.Retryable {
		t.Errorf("of a server that was removed: %+v", a.Err)
	}
}

// TestCancelLeavesTheDeadlineToItsHolder gives a call up while the connection that
// has it sets its deadline; the race detector judges.
func TestCancelLeavesTheDeadlineToItsHolder(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	call := &messages.Call{ID: 1, Server: "a", Tool: "do", Timeout: time.Second}
	set := make(chan struct{})
	go func() {
		defer close(set)
		new(connection).setUntil(call)
	}()
	r.e.Cancel(call, "enough")
	<-set
}

// noJudge leaves no call a worker to check it. free lets so many turns go.
func (r *rig) noJudge() (free func(n int)) {
	var taken []func()
	for range maxJudges {
		began, over, err := r.e.judges.Queue(0)
		if err != nil {
			r.t.Fatal(err)
		}
		<-began
		taken = append(taken, over)
	}
	return func(n int) {
		for _, over := range taken[:n] {
			over()
		}
		taken = taken[n:]
	}
}

// TestChecksGoRoundTheClients has two clients wait for checks: each has a queue of its
// own, which are served in turn.
func TestChecksGoRoundTheClients(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.ok("a")
	free := r.noJudge()
	greedy, modest := r.session(), r.session()
	modest.BelongsTo("token")
	waiting := func(of uint64) int {
		r.e.judges.mu.Lock()
		defer r.e.judges.mu.Unlock()
		return len(r.e.judges.waiting[of])
	}
	var all []*port
	ask := func(s *guest) {
		p := newPort()
		all = append(all, p)
		id := lastCall.Add(1)
		s.Call(&messages.Call{Meta: messages.Meta{Trace: id}, ID: id, Server: "a", Method: methodToolsCall, Tool: "typed", Reply: p})
	}
	for range 5 {
		ask(greedy)
	}
	ask(modest)
	r.f.eventually(t, "each waits in a queue of its own", func() bool {
		return waiting(greedy.ID()) == 5 && waiting(r.e.Sharer(modest.ID())) == 1
	})
	free(maxJudges)
	for _, p := range all {
		r.wantCode(r.wait(&pendingCall{p, &messages.Call{Server: "a"}}), messages.CodeValidation)
	}
}
