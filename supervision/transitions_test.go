package supervision_test

import (
	"testing"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

const (
	idle       = messages.StateIdle
	connecting = messages.StateConnecting
	active     = messages.StateActive
	failed     = messages.StateFailed
	closed     = messages.StateClosed
)

var (
	allStates = []messages.State{idle, connecting, active, failed, closed}
	allEvents = []supervision.Event{
		supervision.EventConnect, supervision.EventHandshakeDone, supervision.EventRequestStarted,
		supervision.EventLastRequestDone, supervision.EventLost, supervision.EventRetry, supervision.EventClose,
	}
)

func TestTransitionText(t *testing.T) {
	if got := supervision.TransitionText(idle, supervision.EventRequestStarted); got != "IDLE → ACTIVE (request-started)" {
		t.Errorf("%q", got)
	}
	for _, none := range []string{
		supervision.TransitionText(closed, supervision.EventRetry), supervision.TransitionText(closed+1, supervision.EventRetry),
		supervision.TransitionText(idle, supervision.EventClose+1),
	} {
		if none != "" {
			t.Errorf("%q for what is refused", none)
		}
	}
}

func TestNextEveryStateAndEvent(t *testing.T) {
	type key struct {
		s messages.State
		e supervision.Event
	}
	allowed := map[key]messages.State{
		{idle, supervision.EventConnect}:             connecting,
		{idle, supervision.EventRequestStarted}:      active,
		{idle, supervision.EventLost}:                closed,
		{idle, supervision.EventClose}:               closed,
		{connecting, supervision.EventHandshakeDone}: active,
		{connecting, supervision.EventLost}:          failed,
		{connecting, supervision.EventClose}:         closed,
		{active, supervision.EventRequestStarted}:    active,
		{active, supervision.EventLastRequestDone}:   idle,
		{active, supervision.EventLost}:              failed,
		{active, supervision.EventClose}:             closed,
		{failed, supervision.EventRetry}:             connecting,
		{failed, supervision.EventClose}:             closed,
	}
	for _, s := range append(allStates, messages.State(99)) {
		for _, e := range append(allEvents, supervision.Event(99)) {
			want, ok := allowed[key{s, e}]
			if !ok {
				want = s
			}
			if got, gotOK := supervision.Next(s, e); got != want || gotOK != ok {
				t.Errorf("%s × %s: got %s, %v; want %s, %v", supervision.StateName(s), e,
					supervision.StateName(got), gotOK, supervision.StateName(want), ok)
			}
		}
	}
}

func TestTransitionsAreThoseOfTheSpec(t *testing.T) {
	spec := map[messages.State][]messages.State{
		idle:       {connecting, active, closed},
		connecting: {active, failed, closed},
		active:     {idle, failed, closed},
		failed:     {connecting, closed},
		closed:     nil,
	}
	for _, from := range allStates {
		may := map[messages.State]bool{}
		for _, s := range spec[from] {
			may[s] = true
		}
		reached := map[messages.State]bool{}
		for _, e := range allEvents {
			if next, ok := supervision.Next(from, e); ok && next != from {
				reached[next] = true
			}
		}
		for _, next := range allStates {
			if reached[next] != may[next] {
				t.Errorf("%s → %s: reached %v, spec %v", supervision.StateName(from), supervision.StateName(next), reached[next], may[next])
			}
		}
	}
}

func TestStateNames(t *testing.T) {
	for s, want := range map[messages.State]string{
		idle: "IDLE", connecting: "CONNECTING", active: "ACTIVE", failed: "FAILED", closed: "CLOSED", 9: "STATE(9)",
	} {
		if got := supervision.StateName(s); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
