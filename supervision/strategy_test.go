package supervision_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/metamcp/metamcp/supervision"
	"github.com/metamcp/metamcp/supervision/kernel"
)

var epoch = time.Date(2026, 1, 2, 12, 2, 37, 0, time.UTC)

func TestOneForOneEscalates(t *testing.T) {
	for _, c := range []struct {
		name  string
		every time.Duration
		calls int
		at    int // the failure, from 1, that is escalated; 0: none
	}{
		{"at once", 0, 4, 4},
		{"within the window", time.Second, 4, 4},
		{"now and then", 30 * time.Second, 1000, 0},
		{"a little faster than it decays", 10 * time.Second, 1000, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := supervision.NewOneForOne(3, 30*time.Second, nil)
			if c.name == "within the window" {
				s = supervision.NewOneForOne(3, 10*time.Minute, nil)
			}
			at := 0
			for i := range c.calls {
				if d := s.Decide("c", "x", epoch.Add(time.Duration(i)*c.every)); d == kernel.Escalate {
					at = i + 1
					break
				} else if d != kernel.Restart {
					t.Fatalf("got %d", d)
				}
			}
			if at != c.at {
				t.Errorf("escalated at %d, want %d", at, c.at)
			}
		})
	}
}

func TestOneForOneCountsEachChildAlone(t *testing.T) {
	s := supervision.NewOneForOne(1, time.Minute, nil)
	for i := range 1000 {
		if d := s.Decide(fmt.Sprint("child", i), "x", epoch); d != kernel.Restart {
			t.Fatalf("child %d: %d", i, d)
		}
	}
	if d := s.Decide("child7", "x", epoch); d != kernel.Escalate {
		t.Errorf("the second failure of one child: %d", d)
	}
	if d := s.Decide("child7", "x", epoch); d != kernel.Restart {
		t.Errorf("after the escalation the slate is clean: %d", d)
	}
}

func TestOneForOneAsksTheDecider(t *testing.T) {
	fatal := errors.New("fatal")
	s := supervision.NewOneForOne(2, time.Minute, func(reason any) kernel.Directive {
		switch reason {
		case fatal:
			return kernel.Stop
		case "mine":
			return kernel.Escalate
		}
		return kernel.Resume
	})
	for i, c := range []struct {
		reason any
		want   kernel.Directive
	}{
		{"a", kernel.Resume},
		{"a", kernel.Resume},
		{fatal, kernel.Stop}, // forgets the two
		{"a", kernel.Resume},
		{"a", kernel.Resume},
		{"a", kernel.Escalate},
		{"mine", kernel.Escalate},
		{nil, kernel.Resume},
	} {
		if got := s.Decide("c", c.reason, epoch); got != c.want {
			t.Errorf("%d: got %d, want %d", i, got, c.want)
		}
	}
}

func TestOneForOneDefaults(t *testing.T) {
	s := supervision.NewOneForOne(0, 0, nil)
	for i := range supervision.DefaultFailureLimit {
		if d := s.Decide("c", "x", epoch); d != kernel.Restart {
			t.Fatalf("failure %d: %d", i+1, d)
		}
	}
	if d := s.Decide("c", "x", epoch); d != kernel.Escalate {
		t.Errorf("got %d", d)
	}
}

func TestNames(t *testing.T) {
	for want, got := range map[string]fmt.Stringer{
		"closed": supervision.BreakerClosed, "open": supervision.BreakerOpen,
		"half-open": supervision.BreakerHalfOpen, "breaker(9)": supervision.BreakerState(9),
		"close-input": supervision.MoveCloseInput, "terminate": supervision.MoveTerminate,
		"look": supervision.MoveLook, "kill": supervision.MoveKill, "move(9)": supervision.Move(9),
		"connect": supervision.EventConnect, "handshake-done": supervision.EventHandshakeDone,
		"request-started": supervision.EventRequestStarted, "last-request-done": supervision.EventLastRequestDone,
		"lost": supervision.EventLost, "retry": supervision.EventRetry, "close": supervision.EventClose,
		"event(99)": supervision.Event(99),
	} {
		if got.String() != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestOneForOneTimeGoingBackwards(t *testing.T) {
	s := supervision.NewOneForOne(1, time.Second, nil)
	s.Decide("c", "x", epoch)
	if d := s.Decide("c", "x", epoch.Add(-time.Hour)); d != kernel.Escalate {
		t.Errorf("got %d", d)
	}
}
