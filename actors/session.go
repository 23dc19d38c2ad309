package actors

import (
	"encoding/json"
	"hash/fnv"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// Session is one client connection as the edge sees it. Its methods may be
// called from any goroutine and do not block.
type Session struct {
	e        *Engine
	pid      *kernel.PID
	id       uint64
	inflight atomic.Int64 // calls
	full     func() bool  // the client does not read its answers; nil: never
}

// sessionActor owns the calls of one client connection: it passes answers and
// progress on in the order in which they came, cancels what the client gives
// up, and cancels everything when the client goes.
type sessionActor struct {
	e     *Engine
	id    uint64
	s     *Session
	calls map[uint64]sessionCall // with the edge's own ports
	asks  map[uint64]sessionAsk  // questions that are with the client, by their number
	flush func()                 // writes what the edge holds back
	port  messages.QuestionPort  // the session's own
	held  []*messages.Call       // wait until the client reads, in order
	// peer reaches the client also when the call is over that it was sent to a URL
	// for.
	peer messages.ClientPort
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
	// sessionQuestions are a child's questions on their way to the client; client
	// is who is asked, nil: who made the call.
	sessionQuestions struct {
		client    messages.ClientPort
		call      uint64
		trace     uint64
		questions []*messages.Question
		withdrawn bool
		reason    string
	}
	// sessionNotice is a child's notification on its way to the client.
	sessionNotice struct {
		client messages.ClientPort
		call   uint64
		method string
		params json.RawMessage
	}
	// sessionAsk is one of the questions.
	sessionAsk struct {
		question *messages.Question
		client   messages.ClientPort
		trace    uint64
	}
)

// Correlation is the request in which the child asks.
func (q *sessionQuestions) Correlation() uint64 { return q.trace }

// PayloadBytes is the size of the questions, for the trace.
func (q *sessionQuestions) PayloadBytes() (n int) {
	for _, one := range q.questions {
		n += one.PayloadBytes()
	}
	return n
}

// OpenSession starts the actor of a client connection. Where the connection's
// ports hold back answers with More set, flush writes them; it never blocks and
// may be nil. The error is a [*messages.Error], SHUTTING_DOWN once the runtime has ended.
func (e *Engine) OpenSession(flush func()) (*Session, error) {
	if flush == nil {
		flush = func() {}
	}
	reply := make(chan sessionOpened, 1)
	var id uint64
	s := &Session{e: e}
	e.sys.Send(e.root, &openSession{reply: reply, produce: func(n uint64) kernel.Actor {
		id = n
		return &sessionActor{e: e, id: n, s: s, calls: map[uint64]sessionCall{}, flush: flush, port: sessionPort{s}}
	}})
	opened := <-reply
	if opened.err != nil {
		return nil, opened.err
	}
	e.sessions.Add(1)
	e.open.Store(id, nil)
	s.pid, s.id = opened.pid, id
	return s, nil
}

// BelongsTo says whose session it is, by a key that all sessions of that client have:
// what is shared out among clients they have together. It is called before the first
// call. Without it the session counts for itself.
func (s *Session) BelongsTo(key string) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key)) // it never fails
	const noSession = 1 << 63   // sessions are counted from 1
	s.e.principals.Store(s.id, h.Sum64()|noSession)
}

// principal is whose session it is; 0: nobody's that is known.
func (e *Engine) principal(session uint64) uint64 {
	if p, ok := e.principals.Load(session); ok {
		return p.(uint64) //nolint:forcetypeassert // nothing else is in the map
	}
	return 0
}

// Sharer is whom a session counts for where something is shared out: its principal,
// or itself where that is not known.
func (e *Engine) Sharer(session uint64) uint64 {
	if p := e.principal(session); p != 0 {
		return p
	}
	return session
}

// ID is the session's number, from 1.
func (s *Session) ID() uint64 { return s.id }

// Call is [Engine.Call] for this client, or [Engine.Ask] where it is of no tool:
// answer and progress pass its actor.
func (s *Session) Call(call *messages.Call) {
	call.Session = s.id
	tracked(call)
	own := *call
	own.Reply = sessionPort{s}
	if call.Progress != nil {
		own.Progress = sessionPort{s}
	}
	if call.Client != nil {
		own.Client = sessionPort{s}
	}
	s.e.sys.Send(s.pid, &sessionCall{call, s.e.observer.began(messages.TraceRequest, call, s.pid.GetId())})
	if most := s.e.sessionCalls.Load(); s.inflight.Add(1) > most && most > 0 {
		own.Reply.Answer(&messages.Answer{Call: call.ID, Server: call.Server, Err: &messages.Error{
			Code: messages.CodePoolSaturated, Server: call.Server, Tool: shortName(call.Tool), Retryable: true,
			Message: strconv.FormatInt(most, 10) + " calls of this client are in flight; the call was not sent",
			Hint:    "Wait for some of them to be answered. The operator can raise pool.sessionCalls.",
		}})
		return
	}
	if s.full != nil {
		own.Held = sessionPort{s}
		if s.full() {
			own.Held.TakeBack(&own)
			return
		}
	}
	s.e.begin(&own)
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

// Ask implements messages.ClientPort, for calls of the session.
func (p sessionPort) Ask(call uint64, questions []*messages.Question) {
	p.s.e.sys.Send(p.s.pid, &sessionQuestions{call: call, trace: call, questions: questions})
}

// Withdraw implements messages.ClientPort.
func (p sessionPort) Withdraw(call uint64, questions []*messages.Question, reason string) {
	p.s.e.sys.Send(p.s.pid, &sessionQuestions{call: call, trace: call, questions: questions, withdrawn: true, reason: reason})
}

// Notify implements messages.ClientPort.
func (p sessionPort) Notify(call uint64, method string, params json.RawMessage) {
	p.s.e.sys.Send(p.s.pid, &sessionNotice{call: call, method: method, params: params})
}

// Answered implements messages.QuestionPort.
func (p sessionPort) Answered(a *messages.QuestionAnswer) { p.s.e.sys.Send(p.s.pid, a) }

// Progressed implements messages.ProgressedPort.
func (p sessionPort) Progressed(m *messages.QuestionProgress) { p.s.e.sys.Send(p.s.pid, m) }

// NextQuestion returns a number that no other question in this host has.
func (e *Engine) NextQuestion() uint64 { return e.questions.Add(1) }

// Client is client by way of the session's actor, for calls that are made for a
// request of the client and do not pass the session themselves, as those of a
// script.
func (s *Session) Client(client messages.ClientPort, request uint64) messages.ClientPort {
	return sessionClient{s, client, request}
}

type sessionClient struct {
	s       *Session
	client  messages.ClientPort
	request uint64
}

// Ask implements messages.ClientPort.
func (c sessionClient) Ask(call uint64, questions []*messages.Question) {
	c.s.e.sys.Send(c.s.pid, &sessionQuestions{client: c.client, call: call, trace: c.request, questions: questions})
}

// Withdraw implements messages.ClientPort.
func (c sessionClient) Withdraw(call uint64, questions []*messages.Question, reason string) {
	c.s.e.sys.Send(c.s.pid, &sessionQuestions{client: c.client, call: call, trace: c.request, questions: questions, withdrawn: true, reason: reason})
}

// Notify implements messages.ClientPort.
func (c sessionClient) Notify(call uint64, method string, params json.RawMessage) {
	c.s.e.sys.Send(c.s.pid, &sessionNotice{client: c.client, call: call, method: method, params: params})
}

// onAnswer passes on the answer to a call, also where telling others of it breaks.
func (a *sessionActor) onAnswer(ctx *kernel.Context, c sessionCall, m *messages.Answer) {
	delete(a.calls, m.Call)
	a.s.inflight.Add(-1)
	defer ctx.Contain(func() { c.call.Reply.Answer(m) })
	a.e.observer.ended(messages.TraceAnswer, c.call, c.started, m, ctx.Self().GetId())
	if m.RPCError != nil && c.call.Client != nil {
		a.peer = c.call.Client
	}
}

// Receive implements kernel.Actor.
func (a *sessionActor) Receive(ctx *kernel.Context, msg any) {
	switch m := msg.(type) {
	case *sessionCall:
		a.calls[m.call.ID] = *m
	case *messages.Answer:
		if c, ok := a.calls[m.Call]; ok {
			a.onAnswer(ctx, c, m)
		}
	case *sessionHeld:
		a.held = append(a.held, m.call)
		a.goOn()
	case *sessionRoom:
		a.goOn()
	case *sessionFlush:
		ctx.Contain(a.flush)
	case *sessionProgress:
		if c, ok := a.calls[m.call]; ok {
			ctx.Contain(func() { c.call.Progress.Progress(m.call, m.params) })
		}
	case *sessionQuestions:
		a.onQuestions(ctx, m)
	case *messages.QuestionAnswer:
		if q, ok := a.asks[m.Question]; ok {
			delete(a.asks, m.Question)
			ctx.Correlate(q.trace)
			ctx.Contain(func() { q.question.Reply.Answered(m) })
		}
	case *messages.QuestionProgress:
		if q, ok := a.asks[m.Question]; ok {
			if p, ok := q.question.Reply.(messages.ProgressedPort); ok {
				ctx.Correlate(q.trace)
				ctx.Contain(func() { p.Progressed(m) })
			}
		}
	case *sessionNotice:
		client := a.client(m.client, m.call)
		if client == nil && m.method == methodElicited {
			client = a.peer
		}
		if client != nil {
			ctx.Contain(func() { client.Notify(m.call, m.method, m.params) })
		}
	case *messages.Cancel:
		if c, ok := a.calls[m.Call]; ok && !a.cancelHeld(m.Call) {
			a.e.Cancel(c.call, m.Reason)
		}
	case kernel.Stopping:
		a.e.sessions.Add(-1)
		a.e.open.Delete(a.id)
		a.e.sys.Send(a.e.sandbox, &forgetResults{a.id}) // of scripts that ended since the client went
		a.e.principals.Delete(a.id)
		for _, c := range a.calls {
			a.e.Cancel(c.call, "the client is gone")
			gone := &messages.Answer{Call: c.call.ID, Err: supervision.Cancelled(c.call), Server: c.call.Server}
			a.e.observer.ended(messages.TraceAnswer, c.call, c.started, gone, ctx.Self().GetId())
			ctx.Contain(func() { c.call.Reply.Answer(gone) })
		}
		a.calls, a.held = nil, nil
		for _, q := range a.asks {
			refuseAsked(ctx, q.question, "the client is gone")
		}
		a.asks = nil
		a.e.dir.Each(func(entry *supervision.Entry) {
			if entry.Spec().Scope == messages.ScopeSession {
				ctx.Send(entry.Breaker, &messages.SessionOver{Session: a.id})
			}
		})
		ctx.Contain(a.flush) // what would have let go comes too late
	}
}

// onQuestions puts questions on record and to the client, or takes them back.
func (a *sessionActor) onQuestions(ctx *kernel.Context, m *sessionQuestions) {
	if m.withdrawn {
		for _, q := range m.questions {
			if open, ok := a.asks[q.ID]; ok {
				delete(a.asks, q.ID)
				ctx.Contain(func() { open.client.Withdraw(m.call, []*messages.Question{q}, m.reason) })
			}
			if p, ok := q.Reply.(messages.WithdrawnPort); ok {
				ctx.Contain(p.Withdrawn)
			}
		}
		return
	}
	client := a.client(m.client, m.call)
	if client == nil {
		for _, q := range m.questions {
			refuseAsked(ctx, q, "the call is over")
		}
		return
	}
	a.peer = client
	if a.asks == nil {
		a.asks = map[uint64]sessionAsk{}
	}
	own := make([]*messages.Question, len(m.questions))
	for i, q := range m.questions {
		a.asks[q.ID] = sessionAsk{q, client, m.trace}
		mine := *q
		mine.Reply = a.port
		own[i] = &mine
	}
	ctx.Contain(func() { client.Ask(m.call, own) })
}

// refuseAsked refuses a question in the client's place.
func refuseAsked(ctx *kernel.Context, q *messages.Question, why string) {
	ctx.Contain(func() {
		q.Reply.Answered(&messages.QuestionAnswer{Question: q.ID, Error: rpcError(rpcRefused, why)})
	})
}

// client is who is asked for a call.
func (a *sessionActor) client(client messages.ClientPort, call uint64) messages.ClientPort {
	if client != nil {
		return client
	}
	if c, ok := a.calls[call]; ok {
		return c.call.Client
	}
	return nil
}
