package metamcp

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/messages"
)

// Methods that go to servers beside calls.
const (
	methodToolsList   = "tools/list"
	methodToolsCall   = "tools/call"
	methodResources   = "resources/list"
	methodTemplates   = "resources/templates/list"
	methodRead        = "resources/read"
	methodSubscribe   = "resources/subscribe"
	methodUnsubscribe = "resources/unsubscribe"
	methodPrompts     = "prompts/list"
	methodPrompt      = "prompts/get"
	methodComplete    = "completion/complete"
	taskPrefix        = "tasks/"
)

// maxAsks bounds the requests of one client whose server is being looked for.
const maxAsks = 1024

// passed answers the requests of one client that go to servers beside calls; it
// implements front.Passed.
type passed struct {
	x       *exposure
	session *actors.Session
	turns   chan struct{}

	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex
	links  memory // URI → the server whose result named it
	tasks  memory // task → the server that made it
	topics map[topicOf]*subscription
	// routing are the requests for subscriptions whose server is being looked for, by
	// the number of the call, but for those that their client has ended since.
	routing map[uint64]topicOf

	posted  []func() // what is to be sent, in this order, with mu not held
	sending bool     // somebody does so
}

var _ front.Passed = (*passed)(nil)

func (x *exposure) passedFor(session *actors.Session) *passed {
	p := &passed{x: x, session: session, turns: make(chan struct{}, maxAsks), topics: map[topicOf]*subscription{}, routing: map[uint64]topicOf{}}
	p.ctx, p.stop = context.WithCancel(x.ctx)
	return p
}

// close ends what is under way and all subscriptions of the session; none may
// begin any more.
func (p *passed) close() {
	p.mu.Lock()
	p.stop() // who looks whether it is over under this lock has begun what is waited for
	p.mu.Unlock()
	p.work.Wait()
	defer p.dispatch()
	p.mu.Lock()
	defer p.mu.Unlock()
	ports := map[front.Updates]bool{}
	for of := range p.topics {
		ports[of.to] = true
	}
	p.topics = nil
	for to := range ports {
		p.leaveAll(to)
	}
}

// Tool implements front.Passed.
func (p *passed) Tool(name string) (server, tool string, ok bool) {
	if !p.x.tools || p.x.ours[name] {
		return "", "", false
	}
	o, ok := p.x.toolSet().named.owner(name)
	return o.server, o.name, ok
}

// Takes implements front.Passed.
func (p *passed) Takes(method, name string, era messages.Era) bool {
	switch method {
	case methodToolsList:
		return p.x.tools
	case methodToolsCall:
		return p.x.tools && !p.x.ours[name]
	case methodResources, methodTemplates, methodRead:
		return true
	case methodSubscribe, methodUnsubscribe:
		return era != messages.EraModern
	case methodPrompts, methodPrompt:
		return p.x.prompts
	case methodComplete:
		return p.x.prompts || p.x.resources
	}
	return strings.HasPrefix(method, taskPrefix)
}

// take begins a request of the client.
func (p *passed) take(a front.Ask) {
	select {
	case p.turns <- struct{}{}:
	default:
		p.fail(&a, &Error{
			Code: messages.CodePoolSaturated, Retryable: true,
			Message: strconv.Itoa(maxAsks) + " requests of this client are being worked on already", Hint: "Wait for answers, then try again.",
		})
		return
	}
	p.mu.Lock()
	over := p.topics == nil || p.ctx.Err() != nil
	if !over {
		p.work.Add(1)
	}
	p.mu.Unlock()
	if over {
		<-p.turns
		p.fail(&a, errEnding)
		return
	}
	p.note(&a)
	go func() {
		defer p.work.Done()
		defer func() { <-p.turns }()
		p.ask(&a)
	}()
}

var errEnding = &Error{
	Code: messages.CodeShuttingDown, Retryable: true,
	Message: "metamcp is shutting down and takes no more requests", Hint: "Send it again once metamcp runs again.",
}

func (p *passed) fail(a *front.Ask, err *Error) {
	a.Reply.Answer(&messages.Answer{Call: a.Call, Err: err})
}

// result is an answer of ours.
func (p *passed) result(a *front.Ask, result json.RawMessage, err *Error) {
	if err != nil {
		p.fail(a, err)
		return
	}
	a.Reply.Answer(&messages.Answer{Call: a.Call, Result: result})
}

func (p *passed) ask(a *front.Ask) {
	cursor := stringOf(a.Params, "cursor")
	switch a.Method {
	case methodToolsList:
		result, err := p.x.listTools(p.ctx, cursor, a.Era)
		p.result(a, result, err)
	case methodToolsCall:
		p.call(a)
	case methodResources:
		p.list(a, listResources, p.x.resources, cursor)
	case methodTemplates:
		p.list(a, listTemplates, p.x.resources, cursor)
	case methodPrompts:
		p.list(a, listPrompts, true, cursor)
	case methodRead:
		p.read(a)
	case methodPrompt:
		p.prompt(a)
	case methodComplete:
		p.complete(a)
	case methodSubscribe:
		p.subscribe(a)
	case methodUnsubscribe:
		p.unsubscribe(a)
	default:
		p.task(a)
	}
}

// stringOf is a member of an object that is a string; "" where there is none.
func stringOf(object json.RawMessage, member string) string {
	if len(object) == 0 {
		return ""
	}
	s, err := jsonrpc.Unquote(jsonrpc.Get(object, member))
	if err != nil {
		return ""
	}
	return s
}

// list answers a list of what servers have.
func (p *passed) list(a *front.Ask, kind listKind, shown bool, cursor string) {
	named := &namedSet{}
	if shown {
		wait, cancel := p.x.patient(p.ctx)
		defer cancel()
		named = p.x.lists.all(wait, kind).named
	}
	partial := shown && a.Era == messages.EraModern && len(p.x.late(kind)) > 0
	result, err := named.page(listKinds[kind].member, cursor, nil, nil, a.Era, partial)
	p.result(a, result, err)
}

// short is a text that a person can read in an error.
func short(s string) string {
	const enough = 200
	return messages.Cut(s, enough)
}
