package actors

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// late waits for so many late answers and returns the requests with which they are on
// record.
func (r *rig) late(n int) []uint64 {
	r.t.Helper()
	r.f.eventually(r.t, "late answers are on record", func() bool { return len(r.trace.requests("late")) >= n })
	return r.trace.requests("late")
}

// TestLateAnswerToTheHostItself is of no client's request: not of one with the id that
// the child was given, and not of the one call that the child has just then.
func TestLateAnswerToTheHostItself(t *testing.T) {
	r := newRig(t, nil)
	lists, asked := 0, json.RawMessage(nil)
	r.add("a", &script{answers: func(l *fakeLink, m rpcLine) bool {
		switch {
		case m.Method == methodToolsList:
			if lists++; lists == 1 {
				return false
			}
			asked = m.ID
			return true
		case m.Method == methodCancelled && asked != nil:
			l.answer(asked, usualTools)
			asked = nil
			return true
		}
		return false
	}}, func(s *messages.ServerSpec) { s.Timeout = 500 * time.Millisecond })
	r.ok("a")
	p := r.start("a", "do", doArgs{Do: "silent"}, within(soon), func(c *messages.Call) { c.Trace = c.ID })
	r.got("a", methodToolsCall, 2)
	r.f.living("a")[0].say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	if got := r.late(1); got[0] != 0 {
		t.Errorf("the late answer to tools/list is of request %d, want none; the call is %d", got[0], p.call.ID)
	}
	if r.trace.count("late", "of the host's own") == 0 {
		t.Error("the record does not say whose request it was")
	}
	r.e.Cancel(p.call, "no more")
	r.wantCode(r.wait(p), messages.CodeCancelled)
}

// TestLateAnswersBelongToTheClientsRequest, that of the script where one has called, also
// when there were many calls in between; what was never asked is of no request.
func TestLateAnswersBelongToTheClientsRequest(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.s.programs["slow"] = func(s *fakeScript) {
		<-s.ask(messages.ScriptAsk{Kind: messages.AskCall, Server: "a", Tool: "do", Args: json.RawMessage(`{"do":"late"}`), TimeoutMs: 40})
		s.value("1")
	}
	script := r.script("slow")
	r.report(script)
	want := []uint64{script.run.ID}
	if got := r.late(1); !slices.Equal(got, want) {
		t.Fatalf("the late answer is of request %d, want that of the script, %d", got, want)
	}
	slow := r.start("a", "do", doArgs{Do: "silent"}, func(c *messages.Call) { c.Trace = c.ID })
	r.got("a", methodToolsCall, 2)
	child := r.f.living("a")[0]
	r.e.Cancel(slow.call, "no more")
	r.wantCode(r.wait(slow), messages.CodeCancelled)
	for range maxDeparted + 1 {
		r.ok("a")
	}
	child.answer([]byte(strconv.FormatUint(slow.call.ID, 10)), `{"content":[]}`)
	r.late(2)
	twice := r.start("a", "do", doArgs{Do: "twice"}, func(c *messages.Call) { c.Trace = c.ID })
	r.wait(twice)
	r.late(3)
	child.answer([]byte(strconv.FormatUint(slow.call.ID+callMask/2, 10)), `{"content":[]}`)
	want = append(want, slow.call.ID, twice.call.ID, 0)
	if got := r.late(4); !slices.Equal(got, want) {
		t.Errorf("late answers are of requests %d, want %d", got, want)
	}
}

// TestAnswerToWhatNobodyAsked is of the host's own work only where the host has given the
// number out: a child can send any.
func TestAnswerToWhatNobodyAsked(t *testing.T) {
	c := &connection{nextID: internalID + 2}
	for id, own := range map[uint64]bool{internalID: false, internalID + 1: true, internalID + 2: true, internalID + 3: false, 1<<53 + 7: false, 7: false} {
		request, what := c.requestOf(id)
		if request != 0 || strings.Contains(what, "of the host's own") != own || !own && !strings.HasSuffix(what, ": number "+strconv.FormatUint(id, 10)) {
			t.Errorf("an answer under id %d is of request %d: %s", id, request, what)
		}
	}
}

// TestLateAnswerOfAnEarlierRound is of the request of the call that goes on, and its id
// of that round is not taken for one of another request.
func TestLateAnswerOfAnEarlierRound(t *testing.T) {
	call := &messages.Call{Meta: messages.Meta{Trace: 3}, ID: 7}
	c := &connection{inflight: map[uint64]*pending{7: {call: call, round: 2}}}
	for _, id := range []uint64{7, 7 | 1<<roundShift} {
		if request, _ := c.requestOf(id); request != 3 {
			t.Errorf("an answer under id %d is of request %d, want 3", id, request)
		}
	}
	delete(c.inflight, 7)
	c.left.add(call)
	if request, _ := c.requestOf(7 | 2<<roundShift); request != 3 {
		t.Errorf("a second answer is of request %d, want 3", request)
	}
}
