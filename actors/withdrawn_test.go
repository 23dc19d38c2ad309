package actors

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// asksOnly is a client that answers what it is asked when the test does.
type asksOnly chan *messages.Question

func (c asksOnly) Ask(_ uint64, questions []*messages.Question) { c <- questions[0] }
func (asksOnly) Withdraw(uint64, []*messages.Question, string)  {}
func (asksOnly) Notify(_ uint64, _ string, _ json.RawMessage)   {}

// heard takes down in which order a question was answered and withdrawn.
type heard chan string

func (h heard) Answered(*messages.QuestionAnswer) { h <- "answered" }
func (h heard) Withdrawn()                        { h <- "withdrawn" }

// An answer that came before its question was taken back is heard before that, and who
// took it back hears when none can come any more.
func TestWithdrawnAfterItsAnswer(t *testing.T) {
	r := newRig(t, nil)
	s, err := r.e.OpenSession(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	next := func(h heard) string {
		select {
		case what := <-h:
			return what
		case <-time.After(time.Minute):
			t.Fatal("nothing is heard")
			return ""
		}
	}
	client := make(asksOnly, 1)
	port := s.Client(client, 1)
	for _, answered := range []bool{true, false} {
		h := make(heard, 2)
		q := &messages.Question{ID: r.e.NextQuestion(), Method: messages.MethodElicit, Reply: h}
		port.Ask(1, []*messages.Question{q})
		asked := <-client
		if answered {
			asked.Reply.Answered(&messages.QuestionAnswer{Question: q.ID, Result: json.RawMessage(`{}`)})
		}
		port.Withdraw(1, []*messages.Question{q}, "nobody waits")
		if answered {
			if got := next(h); got != "answered" {
				t.Errorf("first it is %s", got)
			}
		}
		if got := next(h); got != "withdrawn" {
			t.Errorf("in the end it is %s", got)
		}
	}
}
