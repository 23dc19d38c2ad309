package actors

import (
	"strconv"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// undelivered answers for an actor that was gone when a message came: a
// removed server's breaker, or any once the engine is closed. Whoever waits
// for an answer must not wait for ever.
func (e *Engine) undelivered(msg any) {
	switch m := msg.(type) {
	case *messages.Call:
		e.giveUp(messages.ReturnedCall{Call: m})
	case *messages.CallReturned:
		e.giveUp(messages.ReturnedCall{Call: m.Call})
	case *messages.RequestFailed:
		e.giveUp(messages.ReturnedCall{Call: m.Call, Written: !m.Evidence.NotRun})
	case *messages.ConnectionFailed:
		for _, rc := range m.Returned {
			e.giveUp(rc)
		}
	case *messages.Contact:
		m.Reply.Contacted(m.ID, e.gone(""))
	case *sessionCall: // the client went while it called
		e.Cancel(m.call, "the client is gone")
		gone := &messages.Answer{Call: m.call.ID, Err: supervision.Cancelled(m.call), Server: m.call.Server}
		defer m.call.Reply.Answer(gone) // also where telling others of it breaks
		e.observer.ended(messages.TraceAnswer, m.call, m.started, gone, "")
	case *openSession:
		m.reply <- sessionOpened{err: ShutDown()}
	case *messages.Run:
		refuseRun(m, supervision.ShuttingDown(""))
	case *messages.Provision:
		refuseProvision(m, supervision.ShuttingDown(""))
	case *Subscribe:
		m.Reply(&messages.Answer{Call: m.Call, Err: e.gone(m.Server)})
	case *keepResult:
		m.reply <- ""
	case *supervision.Shutdown:
		close(m.Done)
	}
}

// giveUp answers a call whose breaker is gone.
func (e *Engine) giveUp(rc messages.ReturnedCall) {
	call := *rc.Call
	call.Begun = call.Begun || rc.Written
	e.refuse(&call, supervision.BegunBefore(e.gone(call.Server), &call))
}

func (e *Engine) gone(server string) *messages.Error {
	if e.closed.Load() || e.stopped.Load() {
		return supervision.ShuttingDown(server)
	}
	what := "the server"
	if server != "" { // who waits for a contact knows which one
		what += " " + strconv.Quote(server)
	}
	return &messages.Error{
		Code: messages.CodeServerNotFound, Server: server, Retryable: true,
		Message: what + " was removed or changed while the call was on its way; it was not sent",
		Hint:    "Call mcp_discover without arguments for the list of servers.",
	}
}
