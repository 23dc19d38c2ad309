package front

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// A legacy client that has lost a question on the way gets it again when it comes back,
// however much was written, until it has answered.
func TestHTTPResumptionHasOpenQuestions(t *testing.T) {
	for name, c := range map[string]struct{ question, progress int }{
		"large question":           {2 * maxKept, 1},
		"much behind the question": {1, 2 * maxKept},
	} {
		t.Run(name, func(t *testing.T) {
			f := startHTTP(t, HTTPOptions{})
			calls := hold(f)
			hs := f.open()
			r, st := f.streamed(calls, hs)
			progress := func(n string, more int) {
				r.Progress.Progress(r.Call, []byte(`{"progress":`+n+`,"message":"`+strings.Repeat("x", more)+`"}`))
			}
			first := st.want(`"progress":1`)
			said := make(heard, 1)
			r.Client.Ask(r.Call, []*messages.Question{{
				ID: 1, Method: messages.MethodSample, Params: json.RawMessage(`{"x":"` + strings.Repeat("x", c.question) + `"}`), Reply: said,
			}})
			asked := st.want(messages.MethodSample)
			progress("2", c.progress)
			st.want(`"progress":2`)
			progress("3", 0) // what came before is noted as written once this is there
			st.want(`"progress":3`)
			st.cancel()
			resume := func() *eventStream {
				h := headers{"Last-Event-ID": first.id}
				for k, v := range hs {
					h[k] = v
				}
				return f.stream("GET", "", h)
			}
			again := resume()
			if got := again.want(messages.MethodSample); got != asked {
				t.Error("the question is another one, or has another number")
			}
			if c.progress == 1 {
				again.want(`"progress":2`)
			}
			again.want(`"progress":3`)
			again.cancel()
			var q struct{ ID json.RawMessage }
			if err := json.Unmarshal([]byte(asked.data), &q); err != nil {
				t.Fatal(err)
			}
			f.post(`{"jsonrpc":"2.0","id":`+string(q.ID)+`,"result":{}}`, hs)
			select {
			case <-said:
			case <-time.After(patience):
				t.Fatal("who asked has no answer")
			}
			answer(r)
			last := resume()
			if c.progress == 1 {
				last.want(`"progress":2`)
			}
			last.want(`"progress":3`)
			last.want(`"id":1,"result"`)
			last.ends()
		})
	}
}

// A stream holds a question for as long as it is open and the stream goes on, and none
// of it is left on its bill after that.
func TestStreamForgetsQuestions(t *testing.T) {
	for name, end := range map[string]func(s *stream, open *bool){
		"answered":   func(s *stream, open *bool) { *open = false; s.written(1) },
		"call over":  func(s *stream, _ *bool) { _ = s.Answer([]byte("end")); s.written(2) },
		"given up":   func(s *stream, _ *bool) { s.Drop() },
		"discarded":  func(s *stream, _ *bool) { s.discard() },
		"bound":      func(s *stream, _ *bool) { s.cut() },
		"only asked": func(s *stream, open *bool) { *open = false; s.next(0) },
	} {
		t.Run(name, func(t *testing.T) {
			s, open := newStream(1), true
			var own, all atomic.Int64
			s.keep, s.bill = true, &bill{own: &own, all: &all, most: maxHeld, each: maxHeldEach}
			if err := s.Ask(func() bool { return open }, make([]byte, 2*maxKept)); err != nil {
				t.Fatal(err)
			}
			s.written(1)
			if events, first, _ := s.next(0); len(events) != 1 || first != 1 {
				t.Errorf("%d events from %d on, want the question", len(events), first)
			}
			if _, _, size := s.rest(time.Now()); size != 2*maxKept {
				t.Errorf("it holds %d bytes", size)
			}
			if events, _, _ := s.next(1); len(events) > 0 {
				t.Error("who has the question gets it again")
			}
			end(s, &open)
			if _, _, size := s.rest(time.Now()); size > len("end") || int(own.Load()) != size || int(all.Load()) != size {
				t.Errorf("it holds %d bytes still, and %d are on its bill", size, own.Load())
			}
			if events, _, _ := s.next(0); len(events) > 0 && events[0].open != nil {
				t.Error("the question is asked still")
			}
		})
	}
}
