package supervision

import (
	"fmt"

	"github.com/metamcp/metamcp/messages"
)

// Event is what happens to a connection and may change its state.
type Event uint8

// The events of the connection machine.
const (
	// EventConnect: a fresh connection is told to start.
	EventConnect Event = iota
	// EventHandshakeDone: the child answered the handshake; the first request,
	// tools/list, is about to be sent.
	EventHandshakeDone
	// EventRequestStarted: a request was given to the child.
	EventRequestStarted
	// EventLastRequestDone: nothing is in flight any more.
	EventLastRequestDone
	// EventLost: the start failed, the stream broke or the process ended
	// without having been asked to.
	EventLost
	// EventRetry: a failed connection is started once more.
	EventRetry
	// EventClose: the connection is to end for good.
	EventClose
)

// eventCount is the number of events: EventClose is the last one.
const eventCount = int(EventClose) + 1

// String returns the event's name for traces.
func (e Event) String() string {
	switch e {
	case EventConnect:
		return "connect"
	case EventHandshakeDone:
		return "handshake-done"
	case EventRequestStarted:
		return "request-started"
	case EventLastRequestDone:
		return "last-request-done"
	case EventLost:
		return "lost"
	case EventRetry:
		return "retry"
	case EventClose:
		return "close"
	}
	return fmt.Sprintf("event(%d)", uint8(e))
}

// stateCount is the number of states: StateClosed is the last one.
const stateCount = int(messages.StateClosed) + 1

// edge is one cell of the table; the zero value refuses.
type edge struct {
	next messages.State
	ok   bool
}

func to(s messages.State) edge { return edge{next: s, ok: true} }

// transitions is the whole machine. Whatever is not written here is refused.
//
// A connection that is lost while it is idle goes to CLOSED and not to FAILED:
// nobody waits for it, so there is nothing to retry, and a later need makes a
// new one.
var transitions = [stateCount][eventCount]edge{
	messages.StateIdle: {
		EventConnect:        to(messages.StateConnecting),
		EventRequestStarted: to(messages.StateActive),
		EventLost:           to(messages.StateClosed),
		EventClose:          to(messages.StateClosed),
	},
	messages.StateConnecting: {
		EventHandshakeDone: to(messages.StateActive),
		EventLost:          to(messages.StateFailed),
		EventClose:         to(messages.StateClosed),
	},
	messages.StateActive: {
		// One more request on a busy connection is allowed and changes nothing.
		EventRequestStarted:  to(messages.StateActive),
		EventLastRequestDone: to(messages.StateIdle),
		EventLost:            to(messages.StateFailed),
		EventClose:           to(messages.StateClosed),
	},
	messages.StateFailed: {
		EventRetry: to(messages.StateConnecting),
		EventClose: to(messages.StateClosed),
	},
	messages.StateClosed: {},
}

// Next returns the state that follows s when e happens, and whether the
// machine allows it. Where it does not, s comes back unchanged and the caller
// counts and traces the refusal. The only allowed event that keeps the state
// is one more request on an ACTIVE connection.
func Next(s messages.State, e Event) (messages.State, bool) {
	if int(s) >= stateCount || int(e) >= eventCount {
		return s, false
	}
	c := transitions[s][e]
	if !c.ok {
		return s, false
	}
	return c.next, true
}

// transitionTexts is made once: a trace has two for each call.
var transitionTexts = func() (texts [stateCount][eventCount]string) {
	for s, row := range transitions {
		for e, c := range row {
			if c.ok {
				texts[s][e] = StateName(messages.State(s)) + " → " + StateName(c.next) + " (" + Event(e).String() + ")"
			}
		}
	}
	return texts
}()

// TransitionText is what a trace says of the change that e makes in state s;
// "" where the machine refuses it.
func TransitionText(s messages.State, e Event) string {
	if int(s) >= stateCount || int(e) >= eventCount {
		return ""
	}
	return transitionTexts[s][e]
}

// StateName returns the name of s as it is shown to users: "IDLE",
// "CONNECTING", "ACTIVE", "FAILED" or "CLOSED".
func StateName(s messages.State) string {
	switch s {
	case messages.StateIdle:
		return "IDLE"
	case messages.StateConnecting:
		return "CONNECTING"
	case messages.StateActive:
		return "ACTIVE"
	case messages.StateFailed:
		return "FAILED"
	case messages.StateClosed:
		return "CLOSED"
	}
	return fmt.Sprintf("STATE(%d)", uint8(s))
}
