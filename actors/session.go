package actors

import (
	"encoding/json"
	"errors"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// Session is one client connection as the edge sees it. Its methods may be
// called from any goroutine and do not block.
type Session struct {
	e   *Engine
	pid *kernel.PID
	id  uint64
}

// sessionActor owns the calls of one client connection: it passes answers and
// progress on in the order in which they came, cancels what the client gives
// up, and cancels everything when the client goes.
type sessionActor struct {
	e     *Engine
	calls map[uint64]*messages.Call // with the edge's own ports
	flush func()                    // writes what the edge holds back
}

type (
	// sessionCall puts a call on record before it is sent.
	sessionCall struct{ call *messages.Call }
	// sessionFlush ends a burst of answers.
	sessionFlush struct{}
	// sessionProgress is a child's progress on its way to the client.
	sessionProgress struct {
		call   uint64
		params json.RawMessage
	}
)

// OpenSession starts the actor of a client connection. Where the connection's
// ports hold back answers with More set, flush writes them; it never blocks and
// may be nil.
func (e *Engine) OpenSession(flush func()) (*Session, error) {
	if flush == nil {
		flush = func() {}
	}
	reply := make(chan *kernel.PID, 1)
	var id uint64
	e.sys.Send(e.root, &openSession{reply: reply, produce: func(n uint64) kernel.Actor {
		id = n
		return &sessionActor{e: e, calls: map[uint64]*messages.Call{}, flush: flush}
	}})
	pid := <-reply
	if pid == nil {
		return nil, errors.New("the actor of the session could not be started; see the log")
	}
	return &Session{e: e, pid: pid, id: id}, nil
}

// ID is the session's number, from 1.
func (s *Session) ID() uint64 { return s.id }

// Call is [Engine.Call] for this client: answer and progress pass its actor.
func (s *Session) Call(call *messages.Call) {
	own := *call
	own.Session = s.id
	own.Reply = sessionPort{s}
	if call.Progress != nil {
		own.Progress = sessionPort{s}
	}
	s.e.sys.Send(s.pid, &sessionCall{call})
	s.e.Call(&own)
}

// Cancel gives a call up; its ports hear CANCELLED unless it was answered.
func (s *Session) Cancel(call uint64, reason string) {
	s.e.sys.Send(s.pid, &messages.Cancel{Meta: messages.Meta{Session: s.id}, Call: call, Reason: reason})
}

// Close cancels what is in flight and stops the actor.
func (s *Session) Close() { s.e.sys.Stop(s.pid) }

// sessionPort sends what a call's ports hear to the session's mailbox.
type sessionPort struct{ s *Session }

// Answer implements messages.ReplyPort.
func (p sessionPort) Answer(a *messages.Answer) { p.s.e.sys.Send(p.s.pid, a) }

// Flush implements messages.FlushPort.
func (p sessionPort) Flush() { p.s.e.sys.Send(p.s.pid, &sessionFlush{}) }

// Progress implements messages.ProgressPort.
func (p sessionPort) Progress(call uint64, params json.RawMessage) {
	p.s.e.sys.Send(p.s.pid, &sessionProgress{call, params})
}

// Receive implements kernel.Actor.
func (a *sessionActor) Receive(_ *kernel.Context, msg any) {
	switch m := msg.(type) {
	case *sessionCall:
		a.calls[m.call.ID] = m.call
	case *messages.Answer:
		if call, ok := a.calls[m.Call]; ok {
			delete(a.calls, m.Call)
			call.Reply.Answer(m)
		}
	case *sessionFlush:
		a.flush()
	case *sessionProgress:
		if call, ok := a.calls[m.call]; ok {
			call.Progress.Progress(m.call, m.params)
		}
	case *messages.Cancel:
		if call, ok := a.calls[m.Call]; ok {
			a.e.Cancel(call, m.Reason)
		}
	case kernel.Stopping:
		for _, call := range a.calls {
			a.e.Cancel(call, "the client is gone")
			call.Reply.Answer(&messages.Answer{Call: call.ID, Err: cancelledError(call), Server: call.Server})
		}
		a.calls = nil
		a.flush() // what would have let go comes too late
	}
}
