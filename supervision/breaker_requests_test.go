package supervision_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

func (s *stage) state(server string) string {
	s.t.Helper()
	e, ok := s.dir.Lookup(server)
	if !ok {
		s.t.Fatalf("no server %s", server)
	}
	return e.Status().Breaker
}

// TestFailedRequest: one request that failed is answered with what its caller
// may do now; the connection stays.
func TestFailedRequest(t *testing.T) {
	cut := messages.Evidence{Err: io.ErrUnexpectedEOF, Remote: true}
	unsent := messages.Evidence{Err: io.ErrUnexpectedEOF, Remote: true, NotRun: true}
	broken := messages.Evidence{HTTPStatus: 500, Remote: true}
	busy := messages.Evidence{HTTPStatus: 429, Remote: true, NotRun: true, RetryAfter: time.Minute}
	for _, tt := range []struct {
		name       string
		ev         messages.Evidence
		idempotent bool
		attempt    uint8
		begun      bool
		retry      messages.RetryPolicy
		repeated   bool
		unknown    bool
		retryable  bool
	}{
		{"cut", cut, false, 0, false, messages.RetrySafe, false, true, false},
		{"cut, idempotent", cut, true, 0, false, messages.RetrySafe, true, false, false},
		{"cut twice, idempotent", cut, true, 1, true, messages.RetrySafe, false, false, true},
		{"cut, always", cut, false, 0, false, messages.RetryAlways, true, false, false},
		{"cut, never", cut, true, 0, false, messages.RetryNever, false, false, true},
		{"unsent", unsent, false, 0, false, messages.RetrySafe, true, false, false},
		{"unsent, never", unsent, false, 0, false, messages.RetryNever, false, false, true},
		{"unsent twice", unsent, false, 1, false, messages.RetrySafe, false, false, true},
		{"cut, then unsent", unsent, false, 1, true, messages.RetryAlways, false, false, false},
		{"unsent, then cut, idempotent", cut, true, 1, false, messages.RetrySafe, true, false, false},
		{"500", broken, false, 0, false, messages.RetrySafe, false, true, false},
		{"500, always", broken, false, 0, false, messages.RetryAlways, false, true, false},
		{"500, idempotent", broken, true, 0, false, messages.RetrySafe, false, false, true},
		{"429", busy, false, 0, false, messages.RetrySafe, false, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, nil)
			s.sys.Send(s.pool, &supervision.AddServers{Specs: []*messages.ServerSpec{{Name: "a", MaxInstances: 1, Retry: tt.retry, Timeout: time.Second, URL: "http://a"}}})
			s.idle("a")
			call, port := s.call("a", func(c *messages.Call) { c.Idempotent, c.Attempt, c.Begun = tt.idempotent, tt.attempt, tt.begun })
			s.hears("a#1 Call", 1)
			s.say("a", &messages.RequestFailed{Instance: 1, Evidence: tt.ev, Call: call, Sent: time.Now()})
			if tt.repeated {
				s.hears("a#1 Call", 2)
				s.say("a", &messages.ConnectionIdle{Instance: 1, Handled: 1}) // sent before it came again
				if st := s.stats(); st.Busy != 1 {
					t.Errorf("pool %+v, want it busy", st)
				}
				return
			}
			err := take(s, port).Err
			if err == nil || err.Retryable != tt.retryable || strings.Contains(err.Message, "unknown") != tt.unknown || err.Tool != "t" {
				t.Fatalf("%+v", err)
			}
			if (err.Code == messages.CodeToolExecution) != (tt.unknown || tt.begun && !tt.idempotent) {
				t.Errorf("code %s", err.Code)
			}
			if strings.Contains(err.Message, "may have been carried out") != tt.begun {
				t.Errorf("a child had it: %v, and it says %q", tt.begun, err.Message)
			}
			s.say("a", &messages.ConnectionIdle{Instance: 1, Handled: 1})
			if st := s.stats(); st.Idle != 1 || s.count("a#1 Call") != 1 {
				t.Errorf("pool %+v, want it idle; %d calls", st, s.count("a#1 Call"))
			}
		})
	}
}

// TestFailedRequestsAreCounted: those that were out together are one failure, an
// answer between two ends the row, and the row opens the breaker. Who looks sees that
// the server takes no calls, and until when, though it is connected.
func TestFailedRequestsAreCounted(t *testing.T) {
	s := newStage(t, nil) // which opens at 2
	s.add("a")
	s.idle("a")
	handled, answered := uint64(0), uint64(0)
	fail := func(n uint64) {
		var all []*messages.RequestFailed
		for range n {
			call, _ := s.call("a")
			all = append(all, &messages.RequestFailed{
				Instance: 1, Evidence: messages.Evidence{HTTPStatus: 503, Remote: true}, Call: call, Sent: time.Now(), Answered: answered,
			})
		}
		for _, m := range all {
			s.say("a", m)
		}
		handled += n
	}
	idle := func() {
		s.say("a", &messages.ConnectionIdle{Instance: 1, Handled: handled, Answered: answered})
	}
	succeed := func() {
		s.call("a")
		handled++
		answered++
	}
	fail(20)
	if st := s.state("a"); st != "closed" {
		t.Errorf("one cause makes it %s", st)
	}
	succeed()
	idle()
	fail(1)
	succeed() // and does not go idle
	fail(1)
	if st := s.state("a"); st != "closed" {
		t.Errorf("failures that were no row make it %s", st)
	}
	fail(1)
	if st := s.state("a"); st != "open" {
		t.Errorf("a row leaves it %s", st)
	}
	_, port := s.call("a")
	if a := take(s, port); a.Err == nil || a.Err.Code != messages.CodeCircuitOpen || a.Err.Class != messages.ClassHTTP {
		t.Errorf("%+v", a.Err)
	}
	e, _ := s.dir.Lookup("a")
	st := e.Status()
	if st.State != messages.StateFailed || !st.Connected || st.LastError == nil || st.LastError.Class != messages.ClassHTTP || !st.RetryAt.After(time.Now()) {
		t.Errorf("its status is %+v", st)
	}
}

// TestHalfOpenAndConnected: once its cooldown is over a server that failed last is shown
// as such until it answers, also while it is connected.
func TestHalfOpenAndConnected(t *testing.T) {
	s := newStage(t, func(p *supervision.PoolSettings) { p.FailureThreshold, p.Cooldown = 1, time.Millisecond })
	s.add("a")
	s.idle("a")
	call, _ := s.call("a")
	s.say("a", &messages.RequestFailed{Instance: 1, Evidence: messages.Evidence{HTTPStatus: 503, Remote: true}, Call: call, Sent: time.Now()})
	s.say("a", &messages.ConnectionIdle{Instance: 1, Handled: 1})
	s.until("half-open", func() bool { return s.state("a") == "half-open" })
	e, _ := s.dir.Lookup("a")
	if st := e.Status(); st.State != messages.StateFailed || st.LastError == nil || !st.RetryAt.IsZero() {
		t.Errorf("its status is %+v", st)
	}
	s.call("a")
	s.say("a", &messages.ConnectionIdle{Instance: 1, Handled: 2, Answered: 1})
	if st := e.Status(); st.State != messages.StateIdle || st.LastError != nil {
		t.Errorf("its status is %+v after an answer", st)
	}
}

// TestFailedProbe: the failure of the one call that a half-open breaker lets pass
// opens it again, its success closes it.
func TestFailedProbe(t *testing.T) {
	s := newStage(t, func(p *supervision.PoolSettings) { p.FailureThreshold, p.Cooldown = 1, time.Millisecond })
	s.add("a")
	s.idle("a")
	ev := messages.Evidence{HTTPStatus: 503, Remote: true}
	call, _ := s.call("a")
	s.say("a", &messages.RequestFailed{Instance: 1, Evidence: ev, Call: call, Sent: time.Now()})
	s.say("a", &messages.ConnectionIdle{Instance: 1, Handled: 1})
	s.until("half-open", func() bool { return s.state("a") == "half-open" })
	call, port := s.call("a")
	s.hears("a#1 Call", 2)
	s.say("a", &messages.RequestFailed{Instance: 1, Evidence: ev, Call: call, Sent: time.Now()})
	s.say("a", &messages.ConnectionIdle{Instance: 1, Handled: 2})
	if a := take(s, port); a.Err == nil || a.Err.Class != messages.ClassHTTP {
		t.Errorf("%+v", a.Err)
	}
	s.until("half-open again", func() bool { return s.state("a") == "half-open" })
	s.call("a")
	s.hears("a#1 Call", 3)
	s.say("a", &messages.ConnectionIdle{Instance: 1, Handled: 3, Answered: 1})
	if st := s.state("a"); st != "closed" {
		t.Errorf("it is %s after a success", st)
	}
}
