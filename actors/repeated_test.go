package actors

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
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
	// On a busy machine it may come while a child is being replaced, and is then before
	// those that come back: the last of them is the last call of all.
	if n := r.f.started("a"); n != 4 && n != 3 {
		t.Errorf("%d starts, want one for each call that kills and one more for who comes after them", n)
	}
}

// wantBegun demands an error that says what a child which is lost may have done, and
// nothing that it cannot have done.
func (r *rig) wantBegun(a *messages.Answer, idempotent bool) {
	r.t.Helper()
	if a.Err == nil {
		r.t.Fatalf("want an error, got %s", a.Result)
	}
	if !strings.Contains(a.Err.Message, "may have been carried out") || strings.Contains(a.Err.Message, "not sent") ||
		strings.Contains(a.Err.Message, "nothing was sent") || strings.Contains(a.Err.Message, "not carried out") {
		r.t.Errorf("it says %q", a.Err.Message)
	}
	if a.Err.Retryable != idempotent || (a.Err.Code == messages.CodeToolExecution) == idempotent {
		r.t.Errorf("idempotent %v: %+v", idempotent, a.Err)
	}
}

// TestARepeatedCallThatIsNotSentAgain: the child that had it is lost and the next one does
// not come, be that for the call's time or for the end of the host.
func TestARepeatedCallThatIsNotSentAgain(t *testing.T) {
	for _, tool := range []string{"do", "read"} {
		for _, ends := range []string{"its time is up", "the host ends"} {
			t.Run(tool+", "+ends, func(t *testing.T) {
				r := newRig(t, nil)
				r.add("a", &script{answers: func(l *fakeLink, m rpcLine) bool { return l.n > 1 && m.Method == methodInitialize }},
					func(s *messages.ServerSpec) { s.Retry = messages.RetryAlways })
				r.ok("a")
				p := r.start("a", tool, doArgs{Do: "die"}, func(c *messages.Call) {
					if ends == "its time is up" {
						c.Deadline = time.Now().Add(2 * time.Second) // for the first child to have it, on a busy machine
					}
				})
				r.f.eventually(t, "the next child is started", func() bool { return r.f.started("a") == 2 })
				if ends == "the host ends" {
					r.close()
				}
				r.wantBegun(r.wait(p), tool == "read")
			})
		}
	}
}

// TestEveryRefusalSaysThatTheCallBegan, whoever it comes from.
func TestEveryRefusalSaysThatTheCallBegan(t *testing.T) {
	begun := func(c *messages.Call) { c.Begun = true }
	r := newRig(t, func(s *supervision.PoolSettings) { s.Pool.Size, s.Pool.AcquireTimeout = 1, 60*time.Millisecond })
	r.add("a", nil, func(s *messages.ServerSpec) { s.MaxInFlight = 1 })
	r.add("b", nil, nil)
	r.ok("b")
	r.ok("a")
	busy := r.start("a", "do", doArgs{Do: "silent"})
	r.got("a", methodToolsCall, 2)
	for _, tool := range []string{"do", "read"} {
		r.wantBegun(r.do("a", tool, doArgs{}, begun, func(c *messages.Call) { c.Deadline = time.Now().Add(20 * time.Millisecond) }), tool == "read")
		r.wantBegun(r.do("b", tool, doArgs{}, begun), tool == "read") // there is no place
	}
	r.e.Cancel(busy.call, "enough")
	r.wantCode(r.wait(busy), messages.CodeCancelled)

	r.add("full", &script{backlog: func(line []byte) bool { return strings.Contains(string(line), methodToolsCall) }}, nil)
	for _, tool := range []string{"do", "read"} {
		r.wantBegun(r.do("full", tool, doArgs{}, begun), tool == "read")
	}
	given := r.start("full", "do", doArgs{}, begun, func(c *messages.Call) { c.Cancelled.Store(true) })
	r.wantCode(r.wait(given), messages.CodeCancelled)
}

// TestLostCallsOfABreakerThatIsGone: what is said of them is what is known of them.
func TestLostCallsOfABreakerThatIsGone(t *testing.T) {
	r := newRig(t, nil)
	for _, written := range []bool{true, false} {
		for name, lost := range map[string]func(call *messages.Call) any{
			"connection": func(call *messages.Call) any {
				return &messages.ConnectionFailed{Returned: []messages.ReturnedCall{{Call: call, Written: written}}}
			},
			"request": func(call *messages.Call) any {
				return &messages.RequestFailed{Call: call, Evidence: messages.Evidence{NotRun: !written}}
			},
			"repetition": func(call *messages.Call) any {
				call.Begun = written
				return &messages.CallReturned{Call: call}
			},
		} {
			p := newPort()
			r.e.undelivered(lost(&messages.Call{ID: lastCall.Add(1), Server: "a", Tool: "do", Reply: p}))
			a := r.wait(&pendingCall{port: p})
			if written {
				r.wantBegun(a, false)
			} else if a.Err == nil || !a.Err.Retryable || !strings.Contains(a.Err.Message, "it was not sent") {
				t.Errorf("%s: %+v", name, a.Err)
			}
		}
	}
}

// holder is one that takes every call back.
type holder struct{ t *testing.T }

// Holds implements messages.HeldPort.
func (holder) Holds() bool { return true }

// TakeBack implements messages.HeldPort.
func (h holder) TakeBack(*messages.Call) {
	h.t.Error("a call that a child may have seen was taken back")
}

// TestARepeatedCallIsNotTakenBack by a client that does not read: it takes those that no
// child has seen.
func TestARepeatedCallIsNotTakenBack(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.ok("a")
	r.wantResult(r.do("a", "do", doArgs{}, func(c *messages.Call) { c.Begun, c.Held = true, holder{t} }))
}

// TestWhatWasNotWritten to a child that is lost goes to the next one, whatever the tool
// is; what was written does not.
func TestWhatWasNotWritten(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.ok("a")
	child, burst := r.f.living("a")[0], new(messages.Burst)
	written := r.start("a", "do", doArgs{Do: "silent"})
	r.got("a", methodToolsCall, 2)
	var unwritten []*pendingCall
	for range 3 {
		unwritten = append(unwritten, r.start("a", "do", doArgs{}, func(c *messages.Call) { c.Burst = burst }))
	}
	r.f.eventually(t, "they wait for the end of their burst", func() bool {
		child.mu.Lock()
		defer child.mu.Unlock()
		return len(child.held) == len(unwritten)
	})
	child.crash()
	if a := r.wait(written); r.wantCode(a, messages.CodeToolExecution).Retryable || !strings.Contains(a.Err.Message, "unknown") {
		t.Errorf("%+v", a.Err)
	}
	burst.End() // which they wait for at the next child, too
	for _, p := range unwritten {
		r.wantResult(r.wait(p))
	}
}

// TestWhatWasNotWrittenAtTheEnd of a host was not carried out.
func TestWhatWasNotWrittenAtTheEnd(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.ok("a")
	child, burst := r.f.living("a")[0], new(messages.Burst)
	p := r.start("a", "do", doArgs{}, func(c *messages.Call) { c.Burst = burst })
	r.f.eventually(t, "it waits for the end of its burst", func() bool {
		child.mu.Lock()
		defer child.mu.Unlock()
		return len(child.held) == 1
	})
	r.close()
	if err := r.wantCode(r.wait(p), messages.CodeShuttingDown); !err.Retryable || !strings.Contains(err.Message, "not carried out") {
		t.Errorf("%+v", err)
	}
	burst.End()
}

// TestProgressOfARepeatedCall goes on from where it was: the next child begins anew, and
// is heard once it has come further. What one child says is passed on as it is.
func TestProgressOfARepeatedCall(t *testing.T) {
	says := [][]string{{"0", "1", "3", "2"}, {"0", "1", "2", "3", "4", "4", "3.5", "5e0", "1e999"}, {"7"}}
	r := newRig(t, nil)
	r.add("a", &script{answers: func(l *fakeLink, m rpcLine) bool {
		if m.Method != methodToolsCall {
			return false
		}
		for _, value := range says[l.n-1] {
			l.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%s}}`, m.ID, value))
		}
		if l.n == 1 {
			l.crash()
			return true
		}
		return false
	}}, nil)
	p := r.start("a", "read", doArgs{})
	r.wantResult(r.wait(p))
	var raw []string
	p.mu.Lock()
	for _, params := range p.progress {
		var heard struct{ Progress json.RawMessage }
		if err := json.Unmarshal(params, &heard); err != nil {
			t.Error(err)
		}
		raw = append(raw, string(heard.Progress))
	}
	p.mu.Unlock()
	if want := []string{"0", "1", "3", "2", "4", "4", "3.5", "5e0", "1e999"}; !slices.Equal(raw, want) {
		t.Errorf("the client was told %q, want %q", raw, want)
	}
}

// TestARepeatedCallIsNotSilent: what it says below what was told keeps its client waiting
// all the same, now and then.
func TestARepeatedCallIsNotSilent(t *testing.T) {
	now := time.Now()
	p := &pending{call: &messages.Call{}, word: now}
	p.call.Told.Add(300)
	p.told = p.call.Told
	if raw := p.below(json.RawMessage(`"page 1"`), now.Add(turnWord-1)); raw != nil {
		t.Errorf("it is told too often: %s", raw)
	}
	last := 300.0
	for _, says := range []json.RawMessage{json.RawMessage(`"page 2"`), nil} {
		now = now.Add(turnWord)
		raw := p.below(says, now)
		var told struct {
			Progress float64
			Message  string
		}
		if err := json.Unmarshal(raw, &told); err != nil || told.Message == "" || says != nil && strconv.Quote(told.Message) != string(says) {
			t.Errorf("%s: %v", raw, err)
		}
		if told.Progress <= last || told.Progress > 300.01 || p.told.Before(told.Progress) || !p.told.Before(301) {
			t.Errorf("after %v it is told %v", last, told.Progress)
		}
		last = told.Progress
	}
}

// TestProgressOfACallThatWaits increases each time, and by less than a child counts in.
func TestProgressOfACallThatWaits(t *testing.T) {
	for _, before := range []float64{-3, 0, 8, 1e18} {
		for _, some := range []bool{true, false} {
			var told messages.Told
			last := math.Inf(-1)
			if some {
				told.Add(before)
				last = before
			}
			for range 5 {
				var params struct {
					Progress float64
					Message  string
				}
				raw := waitingProgress(&told, "others are before it")
				if err := json.Unmarshal(raw, &params); err != nil || params.Message != "waiting: others are before it" {
					t.Errorf("%s: %v", raw, err)
				}
				if params.Progress <= last {
					t.Errorf("after %v it is told %v", last, params.Progress)
				}
				last = params.Progress
			}
			if some && before < 1e9 && last > before+0.01 || !some && last > 0.01 || told.Before(last) {
				t.Errorf("it was told %v", last)
			}
		}
	}
	var told messages.Told
	told.Add(math.Inf(1))
	if raw := waitingProgress(&told, "others are before it"); raw != nil {
		t.Errorf("more than everything was told: %s", raw)
	}
}
