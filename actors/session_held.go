package actors

import (
	"slices"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// A client that does not read its answers gets no more of its calls carried out: what
// no child has yet is held by its session, where it takes no place that others wait
// for, until the client reads.

type (
	// sessionHeld is a call that is held, and sessionRoom says that the client reads.
	sessionHeld struct{ call *messages.Call }
	sessionRoom struct{}
)

// HoldWhile has no calls carried out while the client does not read its answers, of
// which full tells; those that no child has wait for [Session.Room]. It is called
// before the first call.
func (s *Session) HoldWhile(full func() bool) { s.full = full }

// Room says that the client reads again. Calls of it that wait go on.
func (s *Session) Room() { s.e.sys.Send(s.pid, &sessionRoom{}) }

// begin hands a call of any kind on.
func (e *Engine) begin(call *messages.Call) {
	if call.OfTool() {
		e.Call(call)
		return
	}
	e.Ask(call)
}

// Holds implements messages.HeldPort.
func (p sessionPort) Holds() bool { return p.s.full() }

// TakeBack implements messages.HeldPort.
func (p sessionPort) TakeBack(call *messages.Call) { p.s.e.sys.Send(p.s.pid, &sessionHeld{call}) }

// goOn hands on what was held while the client did not read, as long as it does.
func (a *sessionActor) goOn() {
	for len(a.held) > 0 && !a.s.full() {
		call := a.held[0]
		a.held[0] = nil
		a.held = a.held[1:]
		switch _, open := a.calls[call.ID]; {
		case !open:
		case !call.Deadline.IsZero() && time.Now().After(call.Deadline):
			call.Reply.Answer(&messages.Answer{Call: call.ID, Err: unread(call), Server: call.Server})
		default:
			a.e.begin(call)
		}
	}
	if len(a.held) == 0 {
		a.held = nil
	}
}

// unread is for a call whose time was over before the client read its answers.
func unread(call *messages.Call) *messages.Error {
	return &messages.Error{
		Code: messages.CodeExecutionTimeout, Server: call.Server, Tool: shortName(call.Tool), Retryable: true,
		Message: "the client did not read the answers to earlier calls in the time that this one allowed; the call was not sent",
		Hint:    "Read answers while you send calls, then call again.",
	}
}

// cancelHeld cancels a call that is held; false: it is not.
func (a *sessionActor) cancelHeld(id uint64) bool {
	i := slices.IndexFunc(a.held, func(call *messages.Call) bool { return call.ID == id })
	if i < 0 {
		return false
	}
	call := a.held[i]
	a.held = slices.Delete(a.held, i, i+1)
	call.Reply.Answer(&messages.Answer{Call: call.ID, Err: supervision.Cancelled(call), Server: call.Server})
	return true
}

// heldBack gives a call back whose caller has no use for its answer now, unless a child may
// have seen it.
func (c *connection) heldBack(ctx *kernel.Context, call *messages.Call) bool {
	if call.Held == nil || call.Begun || !call.Held.Holds() {
		return false
	}
	c.handled++
	c.probeOver(call, false)
	call.Held.TakeBack(call)
	c.stillIdle(ctx)
	return true
}
