package front

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// progressHeard is who asked, and what that hears.
type progressHeard chan string

func (h progressHeard) Answered(a *messages.QuestionAnswer)     { h <- "answer " + string(a.Result) }
func (h progressHeard) Progressed(p *messages.QuestionProgress) { h <- string(p.Params) }

// Each question reaches its client with a progress token of its own, whatever the
// servers gave, and progress under that goes to who asked, under theirs, until the
// question is answered.
func TestProgressWithAnswers(t *testing.T) {
	a, b := make(progressHeard, 8), make(progressHeard, 8)
	calls := make(chan Request, 1)
	engine := &fakeEngine{call: func(r Request) {
		calls <- r
		ask := func(id uint64, to progressHeard, params string) *messages.Question {
			return &messages.Question{ID: id, Method: messages.MethodSample, Params: json.RawMessage(params), Reply: to}
		}
		r.Client.Ask(r.Call, []*messages.Question{
			ask(1, a, `{"_meta": {"x":1, "progressToken": 0 }, "maxTokens":1}`),
			ask(2, b, `{"_meta":{"progressToken":0}}`),
			ask(3, a, `{"progressToken":7,"_meta":{"progressToken":null}}`),
		})
	}}
	s := start(t, Options{Engine: engine})
	s.send(callLine(1, someCall))
	var ids []string
	for _, want := range []string{
		`{"_meta": {"x":1, "progressToken": ID }, "maxTokens":1}`, `{"_meta":{"progressToken":ID}}`, `{"progressToken":7,"_meta":{"progressToken":null}}`,
	} {
		var q struct{ ID, Params json.RawMessage }
		if err := json.Unmarshal([]byte(s.recv()), &q); err != nil {
			t.Fatal(err)
		}
		if want = strings.Replace(want, "ID", string(q.ID), 1); string(q.Params) != want {
			t.Errorf("the client is asked %s, want %s", q.Params, want)
		}
		ids = append(ids, string(q.ID))
	}
	progress := func(token, rest string) {
		s.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token + `,` + rest + `}}`)
	}
	answer := func(id string) { s.send(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`) }
	progress(ids[1], `"progress":1`)
	progress(ids[0], `"progress":2, "message":"half"`)
	progress("0", `"progress":3`)
	progress(ids[2], `"progress":4`)
	answer(ids[0])
	progress(ids[0], `"progress":5`)
	progress(ids[1], `"progress":6`)
	answer(ids[1])
	answer(ids[2])
	for who, want := range map[progressHeard][]string{
		a: {`{"progressToken":0,"progress":2, "message":"half"}`, "answer {}", "answer {}"},
		b: {`{"progressToken":0,"progress":1}`, `{"progressToken":0,"progress":6}`, "answer {}"},
	} {
		for _, w := range want {
			select {
			case got := <-who:
				if got != w {
					t.Errorf("heard is %s, want %s", got, w)
				}
			case <-time.After(patience):
				t.Fatalf("%s is not heard", w)
			}
		}
	}
	r := <-calls
	r.Reply.Answer(&messages.Answer{Call: r.Call, Result: json.RawMessage(`{}`)})
	s.expect(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	s.endsClean()
}
