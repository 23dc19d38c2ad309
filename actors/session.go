package actors

import (
	"encoding/json"
	"errors"
	"time"

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
	calls map[uint64]sessionCall // with the edge's own ports
	flush func()                 // writes what the edge holds back
}

type (
	// sessionCall puts a call on record before it is sent.
	sessionCall struct {
		call    *messages.Call
		started time.Time
	}
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
		return &sessionActor{e: e, calls: map[uint64]sessionCall{}, flush: flush}
	}})
	pid := <-reply
	if pid == nil {
		return nil, errors.New("the actor of the session could not be started; see the log")
	}
	e.sessions.Add(1)
	return &Session{e: e, pid: pid, id: id}, nil
}

// ID is the session's number, from 1.
func (s *Session) ID() uint64 { return s.id }

// Call is [Engine.Call] for this client, or [Engine.Ask] where it is of no tool:
// answer and progress pass its actor.
func (s *Session) Call(call *messages.Call) {
	call.Session = s.id
	own := *call
	own.Reply = sessionPort{s}
	if call.Progress != nil {
		own.Progress = sessionPort{s}
	}
	s.e.sys.Send(s.pid, &sessionCall{call, s.e.observer.began(messages.TraceRequest, call, s.pid.GetId())})
	if !call.OfTool() {
		s.e.Ask(&own)
		return
	}
	s.e.Call(&own)
}

// Cancel gives a call up; its ports hear CANCELLED unless it was answered.
func (s *Session) Cancel(call uint64, reason string) {
	s.e.sys.Send(s.pid, &messages.Cancel{Meta: messages.Meta{Session: s.id}, Call: call, Reason: reason})
}

// Close cancels what is in flight, scripts as well, forgets the results that
// were kept for the client, and stops the actor.
func (s *Session) Close() {
	s.e.sys.Send(s.e.sandbox, &sessionOver{s.id})
	s.e.sys.Stop(s.pid)
}

// sessionPort sends what a call's ports hear to the session's mailbox.
type sessionPort struct{ s *Session }

// Answer implements messages.ReplyPort.
func (p sessionPort) Answer(a *messages.Answer) {
	p.s.e.sys.SendFrom(kernel.Origin{Actor: a.FromActor, Span: a.FromSpan}, p.s.pid, a)
}

// Flush implements messages.FlushPort.
func (p sessionPort) Flush() { p.s.e.sys.Send(p.s.pid, &sessionFlush{}) }

// Progress implements messages.ProgressPort.
func (p sessionPort) Progress(call uint64, params json.RawMessage) {
	p.s.e.sys.Send(p.s.pid, &sessionProgress{call, params})
}

// Receive implements kernel.Actor.
func (a *sessionActor) Receive(ctx *kernel.Context, msg any) {
	switch m := msg.(type) {
	case *sessionCall:
		a.calls[m.call.ID] = *m
	case *messages.Answer:
		if c, ok := a.calls[m.Call]; ok {
			delete(a.calls, m.Call)
			a.e.observer.ended(messages.TraceAnswer, c.call, c.started, m, ctx.Self().GetId())
			c.call.Reply.Answer(m)
		}
	case *sessionFlush:
		a.flush()
	case *sessionProgress:
		if c, ok := a.calls[m.call]; ok {
			c.call.Progress.Progress(m.call, m.params)
		}
	case *messages.Cancel:
		if c, ok := a.calls[m.Call]; ok {
			a.e.Cancel(c.call, m.Reason)
		}
	case kernel.Stopping:
		a.e.sessions.Add(-1)
		for _, c := range a.calls {
			a.e.Cancel(c.call, "the client is gone")
			gone := &messages.Answer{Call: c.call.ID, Err: cancelledError(c.call), Server: c.call.Server}
			a.e.observer.ended(messages.TraceAnswer, c.call, c.started, gone, ctx.Self().GetId())
			c.call.Reply.Answer(gone)
		}
		a.calls = nil
		a.flush() // what would have let go comes too late
	}
}
