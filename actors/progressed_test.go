package actors

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// How far a client is with its answer reaches the child that asked, in order, before the
// answer and not after it. What a child cannot be expected to read does not.
func TestProgressWithAnswers(t *testing.T) {
	r := newRig(t, nil)
	can := messages.ClientCan{Sampling: true}
	var call json.RawMessage // of the child's goroutine
	r.add("a", &script{answers: func(l *fakeLink, m rpcLine) bool {
		switch {
		case m.Method == methodToolsCall:
			call = m.ID
			l.say(`{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"_meta":{"progressToken":0}}}`)
		case m.Method == "" && string(m.ID) == `"q"`:
			l.answer(call, `{"content":[]}`)
		default:
			return false
		}
		return true
	}}, func(s *messages.ServerSpec) { s.Asks = can })
	s := r.session()
	defer s.Close()
	client := make(asksOnly, 1)
	for range 2 {
		p := newPort()
		c := &messages.Call{
			ID: lastCall.Add(1), Server: "a", Method: methodToolsCall, Tool: "do", Args: json.RawMessage(`{}`),
			Reply: p, Client: client, Can: can,
		}
		s.Call(c)
		var q *messages.Question
		select {
		case q = <-client:
		case <-time.After(soon):
			t.Fatal("the client is not asked")
		}
		port, ok := q.Reply.(messages.ProgressedPort)
		if !ok {
			t.Fatalf("%T hears no progress", q.Reply)
		}
		progress := func(n int, more string) {
			port.Progressed(&messages.QuestionProgress{Question: q.ID, Params: fmt.Appendf(nil, `{"progressToken":0,"progress":%d%s}`, n, more)})
		}
		progress(1, "")
		progress(2, `,"message":"`+strings.Repeat("x", maxProgressedBytes)+`"`)
		progress(3, "")
		q.Reply.Answered(&messages.QuestionAnswer{Question: q.ID, Result: json.RawMessage(`{"n":4}`)})
		progress(5, "")
		r.wantResult(r.wait(&pendingCall{p, c}))
	}
	r.f.mu.Lock()
	child := r.f.links[0]
	r.f.mu.Unlock()
	var heard []string
	child.mu.Lock()
	for _, m := range child.got {
		if m.Method == methodProgress || m.Method == "" {
			heard = append(heard, string(m.Params)+string(m.Result))
		}
	}
	child.mu.Unlock()
	one, three, answer := `{"progressToken":0,"progress":1}`, `{"progressToken":0,"progress":3}`, `{"n":4}`
	if want := []string{one, three, answer, one, three, answer}; !slices.Equal(heard, want) {
		t.Errorf("the child heard %q, want %q", heard, want)
	}
	var a asks
	now, told := time.Now(), 0
	for i := range 1000 {
		if a.mayTell(now.Add(time.Duration(i) * 2 * time.Millisecond)) {
			told++
		}
	}
	if told != 2*maxProgressed {
		t.Errorf("within two seconds a child is told %d times, want %d", told, 2*maxProgressed)
	}
}
