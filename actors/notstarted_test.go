package actors

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// until is a call that is worth nothing after d.
func until(d time.Duration) func(*messages.Call) {
	return func(c *messages.Call) { c.Deadline = time.Now().Add(d) }
}

// says holds an error to words that must be in it and words that must not.
func says(t *testing.T, err *messages.Error, words, foreign []string) {
	t.Helper()
	text := err.Message + " " + err.Hint
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q lacks %q", text, w)
		}
	}
	for _, w := range foreign {
		if strings.Contains(text, w) {
			t.Errorf("%q has %q", text, w)
		}
	}
}

// TestCallThatDoesNotWaitForAPlace: its error speaks of the pool, not of a server that is
// slow or not there, whether the server's tools are known or not.
func TestCallThatDoesNotWaitForAPlace(t *testing.T) {
	r := newRig(t, places(1))
	r.add("known", nil, nil)
	r.add("unknown", nil, nil)
	r.add("busy", nil, nil)
	r.ok("known")
	busy := r.start("busy", "do", doArgs{Do: "silent"})
	r.got("busy", methodToolsCall, 1)
	for _, server := range []string{"known", "unknown"} {
		before := r.f.started(server)
		err := r.wantCode(r.do(server, "do", doArgs{}, until(20*time.Millisecond)), messages.CodeExecutionTimeout)
		says(t, err, []string{"place in the pool", "pool.poolSize", "longer timeoutMs"}, []string{"startupTimeoutMs", "failed"})
		if err.Class != messages.ClassNone || !err.Retryable {
			t.Errorf("%s: class %q, retryable %v", server, err.Class, err.Retryable)
		}
		if r.f.started(server) != before {
			t.Errorf("%s was started", server)
		}
	}
	r.e.Cancel(busy.call, "enough")
	r.wantCode(r.wait(busy), messages.CodeCancelled)
	r.ok("unknown")
}

// TestCallThatDoesNotWaitForTheBackoff: its error says why the server is left alone, and
// for how long.
func TestCallThatDoesNotWaitForTheBackoff(t *testing.T) {
	last := &messages.Error{Class: messages.ClassStdioExit, Message: "it ended", Details: []string{"no luck"}}
	err := notStarted("a", "do", messages.Status{RetryAt: time.Now().Add(time.Hour), LastError: last})
	says(t, err, []string{"not started again for another ", "it ended", "longer timeoutMs"}, []string{"startupTimeoutMs", "pool"})
	if err.RetryAfter <= 0 || err.Class != last.Class || !slices.Equal(err.Details, last.Details) {
		t.Errorf("%+v", err)
	}
	err = notStarted("a", "do", messages.Status{RetryAt: time.Now().Add(-time.Hour), LastError: last}) // it was over before
	says(t, err, []string{"pool.poolSize"}, []string{"it ended"})
}

// TestCallThatDoesNotWaitForOthersToStart has its server's place, and no turn.
func TestCallThatDoesNotWaitForOthersToStart(t *testing.T) {
	b := newBench(t, nil)
	b.c.deps.starts <- struct{}{}
	b.send(&messages.Connect{})
	call, p := b.call("")
	call.Deadline = time.Now().Add(time.Millisecond)
	b.send(call)
	b.f.eventually(t, "the call is over", p.answered)
	<-b.c.deps.starts
	p.mu.Lock()
	defer p.mu.Unlock()
	says(t, p.answers[0].Err, []string{"no more than 1 ", "pool.maxStarts"}, []string{"startupTimeoutMs", "poolSize"})
}
