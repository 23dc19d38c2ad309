package metamcp

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/messages"
)

// asker sends the user of one client to an address, for what the client itself must
// not see: a page that takes a secret, or the login at an authorization server.
type asker struct {
	e       *Engine
	session *actors.Session
	// local says that the user's browser is on this machine, as far as can be told.
	local bool
	// ctx ends when the client can answer nothing any more.
	ctx  context.Context
	gone context.CancelFunc

	mu     sync.Mutex
	closed bool
	waits  map[uint64]*round // of calls that wait for their user
	work   sync.WaitGroup
}

// round is one wait of a call for its user. The next one may begin before it ends.
type round struct{ cancel context.CancelFunc }

func (e *Engine) newAsker(session *actors.Session, local bool) *asker {
	s := &asker{e: e, session: session, local: local, waits: map[uint64]*round{}}
	s.ctx, s.gone = context.WithCancel(context.Background())
	e.askers.Store(session.ID(), s)
	return s
}

// askerOf is the asker of a session; nil: it has none.
func (e *Engine) askerOf(session uint64) *asker {
	s, _ := e.askers.Load(session)
	a, _ := s.(*asker)
	return a
}

// close ends what waits, before the session ends.
func (s *asker) close() {
	s.e.askers.Delete(s.session.ID())
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.gone()
	s.work.Wait()
}

// principal tells whom the client belongs to; those that prove nothing are one.
func (s *asker) principal() string {
	known, _ := s.e.clients.Load(s.session.ID())
	c, _ := known.(client)
	return c.principal
}

// mayMend says whether the client's user may log in at a server or store a secret,
// which serves all clients: not where its token keeps it from adding servers.
func (s *asker) mayMend() bool {
	known, _ := s.e.clients.Load(s.session.ID())
	c, ok := known.(client)
	return ok && (c.token == "" || !c.noProvision)
}

// letIn says whether the client would be let in now: its token may have been removed.
func (s *asker) letIn() bool {
	known, ok := s.e.clients.Load(s.session.ID())
	if !ok {
		return false // its session ends
	}
	still := known.(client).still
	return still == nil || still()
}

// begin runs f on a goroutine, with a context that ends with the call or the client;
// false: the session is over.
func (s *asker) begin(call uint64, f func(ctx context.Context)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	ctx, cancel := context.WithCancel(s.ctx)
	own := &round{cancel}
	s.waits[call] = own
	s.work.Go(func() {
		defer func() {
			s.mu.Lock()
			if s.waits[call] == own {
				delete(s.waits, call)
			}
			s.mu.Unlock()
			cancel()
		}()
		f(ctx)
	})
	return true
}

// cancel gives up a call that waits.
func (s *asker) cancel(call uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.waits[call]; r != nil {
		r.cancel()
	}
}

// invitation is what a client is asked to show its user.
type invitation struct {
	ID      string // of the elicitation
	Message string
	Address string
}

// params are those of the elicitation; the newer protocol has no ids for them.
func (i *invitation) params(withID bool) json.RawMessage {
	params := map[string]string{"mode": "url", "message": i.Message, "url": i.Address}
	if withID {
		params["elicitationId"] = i.ID
	}
	raw, _ := json.Marshal(params) // strings always marshal
	return raw
}

// required is the error that tells a client which cannot be asked during a request
// to show the address and then to repeat the request (2025-11-25).
func (i *invitation) required() json.RawMessage {
	raw, _ := json.Marshal(map[string]any{ // strings and JSON always marshal
		"code": codeURLRequired, "message": i.Message, "data": map[string]any{"elicitations": []json.RawMessage{i.params(true)}},
	})
	return raw
}

const (
	codeURLRequired = -32042
	methodElicited  = "notifications/elicitation/complete"
)

// Why a client's user did not go where it was asked to.
var (
	errDeclined = errors.New("the user declined")
	errNoAnswer = errors.New("the client did not ask its user")
)

// invite asks the client to show its user an address. nil: the user goes there.
// Otherwise the error is errDeclined, errNoAnswer, or that of ctx.
func (s *asker) invite(ctx context.Context, client messages.ClientPort, call uint64, modern bool, i *invitation) error {
	answer := make(questionPort, 1)
	q := &messages.Question{ID: s.e.core.NextQuestion(), Method: messages.MethodElicit, Params: i.params(!modern), Reply: answer}
	client.Ask(call, []*messages.Question{q})
	select {
	case got := <-answer:
		return accepted(got)
	case <-ctx.Done():
	}
	client.Withdraw(call, []*messages.Question{q}, "nobody waits for it any more")
	select {
	case got := <-answer:
		if got != nil { // it was on its way here before the end of ctx
			return accepted(got)
		}
	case <-s.ctx.Done():
	}
	return ctx.Err()
}

// accepted says what a client answered: nil where its user goes there.
func accepted(a *messages.QuestionAnswer) error {
	var r struct {
		Action string `json:"action"`
	}
	switch {
	case a.Result == nil || json.Unmarshal(a.Result, &r) != nil:
		return errNoAnswer
	case r.Action != "accept":
		return errDeclined
	}
	return nil
}

// over tells a client of the older protocol that what its user was sent to is over.
func (i *invitation) over(client messages.ClientPort, call uint64) {
	client.Notify(call, methodElicited, json.RawMessage(`{"elicitationId":`+strconv.Quote(i.ID)+`}`))
}

// takesStream says whether a client can be asked while its request is in flight.
func takesStream(client messages.ClientPort) bool {
	s, ok := client.(front.Streamless)
	return !ok || !s.Streamless()
}

// Ask implements front.Passed.
func (p *passed) Ask(a front.Ask) {
	if a.Method == methodToolsCall {
		a.Reply = toolResults{a.Reply}
	}
	if s := p.x.e.askerOf(a.Session); s.cures(a.Client, a.Can) {
		a.Reply = p.watch(s, a)
	}
	p.take(a)
}

// watch is for Ask what that of frontEngine is for Call.
func (p *passed) watch(s *asker, a front.Ask) messages.ReplyPort {
	return s.watch(&curable{
		call: a.Call, client: a.Client, modern: a.TakesInput, next: a.Reply,
		again: func(reply messages.ReplyPort) {
			own := a
			own.Reply = reply
			p.take(own)
		},
	})
}
