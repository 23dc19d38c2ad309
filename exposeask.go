package metamcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
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
	topics map[topicOf]actors.Topic
}

// topicOf is a subscription as its client knows it.
type topicOf struct {
	to  front.Updates
	uri string
}

var _ front.Passed = (*passed)(nil)

func (x *exposure) passedFor(session *actors.Session) *passed {
	p := &passed{x: x, session: session, turns: make(chan struct{}, maxAsks), topics: map[topicOf]actors.Topic{}}
	p.ctx, p.stop = context.WithCancel(x.ctx)
	return p
}

// close ends what is under way and all subscriptions of the session; none may
// begin any more.
func (p *passed) close() {
	p.stop()
	p.work.Wait()
	p.mu.Lock()
	ports := map[front.Updates]bool{}
	for of := range p.topics {
		ports[of.to] = true
	}
	p.topics = nil
	p.mu.Unlock()
	for to := range ports {
		p.x.e.core.Unsubscribe(&actors.Unsubscribe{Port: to})
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
	go func() {
		defer p.work.Done()
		defer func() { <-p.turns }()
		p.ask(&a)
	}()
}

var errEnding = &Error{Code: messages.CodeShuttingDown, Message: "metamcp is shutting down and takes no more requests", Hint: "Start metamcp again."}

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
	result, err := named.page(listKinds[kind].member, cursor, nil, a.Era)
	p.result(a, result, err)
}

// call begins a call of a tool that was not known a moment ago.
func (p *passed) call(a *front.Ask) {
	name := stringOf(a.Params, "name")
	o, ok := p.x.findTool(p.ctx, name)
	if !ok {
		p.fail(a, &Error{
			Code: messages.CodeToolNotFound, Tool: short(name), Message: "there is no tool " + strconv.Quote(short(name)),
			Hint: "tools/list has what can be called directly.",
		})
		return
	}
	args := jsonrpc.Get(a.Params, "arguments")
	if string(args) == "null" {
		args = nil
	}
	if len(args) > 0 && args[0] != '{' {
		p.fail(a, &Error{Code: messages.CodeValidation, Server: o.server, Tool: o.name, Message: "arguments: an object is expected", Hint: "Send the arguments as the tool's inputSchema has them."})
		return
	}
	p.send(a, &messages.Call{Server: o.server, Tool: o.name, Args: args})
}

// send hands a request to its server.
func (p *passed) send(a *front.Ask, call *messages.Call) {
	call.Meta, call.ID = messages.Meta{Trace: a.Call}, a.Call
	call.Cancelled, call.Reply, call.Progress = a.Cancelled, a.Reply, a.Progress
	call.Client, call.Shared, call.Can, call.Log, call.TakesInput, call.Input = a.Client, a.Shared, a.Can, a.Log, a.TakesInput, a.Input
	p.x.e.telemetry.BeginRequest(call, a.Context, a.Era)
	p.session.Call(call)
}

// pass hands on a request whose params stay as the client sent them, but for what
// is between us and each of the two.
func (p *passed) pass(a *front.Ask, server string, params json.RawMessage) {
	params, err := bare(params, a.TakesInput)
	if err != nil {
		p.fail(a, &Error{Code: messages.CodeValidation, Server: server, Message: "params: " + err.Error(), Hint: "Send the request as the protocol has it."})
		return
	}
	p.send(a, &messages.Call{Server: server, Method: a.Method, Params: params, Idempotent: a.Method != taskPrefix+"update" && a.Method != taskPrefix+"cancel"})
}

// bare is an object without _meta and, from a modern client, what answers
// questions, which the call has beside it; the bytes of all else stay.
func bare(object json.RawMessage, modern bool) (json.RawMessage, error) {
	if len(object) == 0 {
		return nil, nil
	}
	out := append(make([]byte, 0, len(object)), '{')
	err := jsonrpc.Scan(object, func(key, val []byte) error {
		switch string(key) {
		case "_meta":
			return nil
		case "inputResponses", "requestState":
			if modern {
				return nil
			}
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(jsonrpc.AppendQuote(out, string(key)), ':')
		out = append(out, val...)
		return nil
	})
	return append(out, '}'), err
}

// read answers resources/read.
func (p *passed) read(a *front.Ask) {
	topic, err := p.route(stringOf(a.Params, "uri"))
	if err != nil {
		p.fail(a, err)
		return
	}
	if a.Era == messages.EraModern {
		a.Reply = hinted{a.Reply}
	}
	p.pass(a, topic.Server, withMember(a.Params, "uri", topic.URI))
}

// hinted adds what a modern client has to find in the answer to a read, where the
// server is of the other era.
type hinted struct{ messages.ReplyPort }

// Answer implements messages.ReplyPort.
func (h hinted) Answer(a *messages.Answer) {
	if a.Result != nil && jsonrpc.Get(a.Result, "contents") != nil && jsonrpc.Get(a.Result, "ttlMs") == nil {
		own := *a
		own.Result = append([]byte(`{"ttlMs":0,"cacheScope":"private",`), bytes.TrimLeft(bytes.TrimSpace(a.Result)[1:], " \t\r\n")...)
		a = &own
	}
	h.ReplyPort.Answer(a)
}

// prompt answers prompts/get.
func (p *passed) prompt(a *front.Ask) {
	o, err := p.findPrompt(stringOf(a.Params, "name"))
	if err != nil {
		p.fail(a, err)
		return
	}
	p.pass(a, o.server, withMember(a.Params, "name", o.name))
}

func (p *passed) findPrompt(name string) (owner, *Error) {
	if kept := p.x.lists.kept(listPrompts); kept != nil {
		if o, ok := kept.named.owner(name); ok {
			return o, nil
		}
	}
	wait, cancel := p.x.patient(p.ctx)
	defer cancel()
	if o, ok := p.x.lists.all(wait, listPrompts).named.owner(name); ok {
		return o, nil
	}
	return owner{}, &Error{
		Code: messages.CodePromptNotFound, Message: "there is no prompt " + strconv.Quote(short(name)), Hint: "prompts/list has those that there are.",
	}
}

// complete answers completion/complete.
func (p *passed) complete(a *front.Ask) {
	ref := jsonrpc.Get(a.Params, "ref")
	var server string
	switch kind := stringOf(ref, "type"); kind {
	case "ref/prompt":
		o, err := p.findPrompt(stringOf(ref, "name"))
		if err != nil {
			p.fail(a, err)
			return
		}
		server, ref = o.server, withMember(ref, "name", o.name)
	case "ref/resource":
		topic, err := p.routeTemplate(stringOf(ref, "uri"))
		if err != nil {
			p.fail(a, err)
			return
		}
		server, ref = topic.Server, withMember(ref, "uri", topic.URI)
	default:
		p.fail(a, &Error{
			Code: messages.CodeValidation, Message: "ref.type: ref/prompt or ref/resource is expected, not " + strconv.Quote(short(kind)),
			Hint: "Send the request as the protocol has it.",
		})
		return
	}
	start, end, _ := jsonrpc.Index(a.Params, "ref") // it is there
	p.pass(a, server, slices.Concat(a.Params[:start], ref, a.Params[end:]))
}

// task answers tasks/get, tasks/update and tasks/cancel, which go to the server
// that made the task.
func (p *passed) task(a *front.Ask) {
	id := stringOf(a.Params, "taskId")
	p.mu.Lock()
	servers := p.tasks.of(id)
	p.mu.Unlock()
	switch len(servers) {
	case 1:
		p.pass(a, servers[0], a.Params)
	case 0:
		p.fail(a, &Error{
			Code: messages.CodeTaskNotFound, Message: "no result that this client got names the task " + strconv.Quote(short(id)),
			Hint: "Only who was given a task can ask for it, for as long as the connection lasts.",
		})
	default:
		p.fail(a, &Error{
			Code: messages.CodeTaskNotFound, Message: fmt.Sprintf("several servers made a task %q: %s", short(id), strings.Join(servers, ", ")),
			Hint: "Nothing can be asked of it here; the servers should make up ids that no other has.",
		})
	}
}

// short is a text that a person can read in an error.
func short(s string) string {
	const enough = 200
	if len(s) <= enough {
		return s
	}
	return strings.ToValidUTF8(s[:enough], "") + "…"
}

// ownScheme begins the URIs that say whose resource they name: what follows the
// server is the server's own URI, or template, as it is.
const ownScheme = "metamcp://"

func ownURI(server, uri string) string { return ownScheme + url.PathEscape(server) + "/" + uri }

// ownedBy reads an URI of ours.
func ownedBy(uri string) (topic actors.Topic, ok bool) {
	rest, ok := strings.CutPrefix(uri, ownScheme)
	if !ok {
		return topic, false
	}
	server, uri, ok := strings.Cut(rest, "/")
	if !ok || uri == "" {
		return topic, false
	}
	name, err := url.PathUnescape(server)
	return actors.Topic{Server: name, URI: uri}, err == nil && name != ""
}

// route finds the server of a resource: the one that an URI of ours names, the
// only one that lists it, the only one whose results named it in this session, the only
// one with a template for it, or the only one that has resources at all.
func (p *passed) route(uri string) (actors.Topic, *Error) {
	return p.routeBy(uri, func(m *mergedList) []string { return m.matching(uri) })
}

// routeTemplate is route for what may be a template.
func (p *passed) routeTemplate(uri string) (actors.Topic, *Error) {
	return p.routeBy(uri, func(m *mergedList) []string {
		if owners := m.owners[uri]; len(owners) > 0 {
			return owners
		}
		return m.matching(uri)
	})
}

func (p *passed) routeBy(uri string, byTemplate func(m *mergedList) []string) (actors.Topic, *Error) {
	if uri == "" {
		return actors.Topic{}, &Error{Code: messages.CodeValidation, Message: "uri: the URI of a resource is required, a string", Hint: "resources/list and the links in results have such URIs."}
	}
	if topic, ok := ownedBy(uri); ok {
		if _, ok := p.x.e.core.Directory().Lookup(topic.Server); !ok {
			return topic, p.x.e.core.ServerNotFound(topic.Server)
		}
		return topic, nil
	}
	if kept := p.x.lists.kept(listResources); kept != nil {
		if owners := p.there(kept.owners[uri]); len(owners) == 1 {
			return actors.Topic{Server: owners[0], URI: uri}, nil
		}
	}
	p.mu.Lock()
	named := p.links.of(uri)
	p.mu.Unlock()
	switch named = p.there(named); len(named) {
	case 0:
	case 1:
		return actors.Topic{Server: named[0], URI: uri}, nil
	default:
		return actors.Topic{}, severalHave(uri, named)
	}
	wait, cancel := p.x.patient(p.ctx)
	defer cancel()
	resources := p.x.lists.all(wait, listResources)
	owners := p.there(resources.owners[uri])
	if len(owners) == 0 {
		owners = p.there(byTemplate(p.x.lists.all(wait, listTemplates)))
	}
	if only := strings.Split(resources.servers, "\x00"); len(owners) == 0 && len(only) == 1 && only[0] != "" {
		owners = p.there(only)
	}
	switch len(owners) {
	case 1:
		return actors.Topic{Server: owners[0], URI: uri}, nil
	case 0:
		return actors.Topic{}, &Error{
			Code: messages.CodeResourceNotFound, Message: "no server lists the resource " + strconv.Quote(short(uri)) + " or has a template for it, and no result named it",
			Hint: "Name its server: " + ownScheme + "SERVER/ and then the URI.",
		}
	}
	return actors.Topic{}, severalHave(uri, owners)
}

func severalHave(uri string, owners []string) *Error {
	own := make([]string, len(owners))
	for i, o := range owners {
		own[i] = short(ownURI(o, uri))
	}
	return &Error{
		Code: messages.CodeResourceNotFound, Message: "several servers have the resource " + strconv.Quote(short(uri)) + ": " + strings.Join(owners, ", "),
		Hint: "Name the one that is meant: " + ownScheme + "SERVER/ and then the URI.", Details: own,
	}
}

// there leaves of servers those that are configured.
func (p *passed) there(servers []string) (left []string) {
	for _, s := range servers {
		if _, ok := p.x.e.core.Directory().Lookup(s); ok {
			left = append(left, s)
		}
	}
	return left
}

// matching are the servers with a template for an URI.
func (m *mergedList) matching(uri string) (servers []string) {
	if len(uri) > maxItemKey {
		return nil
	}
	for _, t := range m.templates {
		if t.match != nil && !slices.Contains(servers, t.server) && t.match.Match(uri) != nil {
			servers = append(servers, t.server)
		}
	}
	return servers
}

// subscribe answers resources/subscribe.
func (p *passed) subscribe(a *front.Ask) {
	topic, err := p.route(stringOf(a.Params, "uri"))
	if err != nil {
		p.fail(a, err)
		return
	}
	p.begin(a.Call, stringOf(a.Params, "uri"), topic, a.Peer, func(failure *messages.Answer) {
		if failure == nil {
			failure = &messages.Answer{Result: json.RawMessage(`{}`)}
		}
		own := *failure
		own.Call, own.Server = a.Call, ""
		a.Reply.Answer(&own)
	})
}

// begin subscribes to a resource, and remembers it for the end of the session.
func (p *passed) begin(call uint64, uri string, topic actors.Topic, to front.Updates, reply func(failure *messages.Answer)) {
	of := topicOf{to, uri}
	p.mu.Lock()
	over := p.topics == nil
	if !over {
		p.topics[of] = topic
	}
	p.mu.Unlock()
	if over {
		reply(&messages.Answer{Call: call, Err: errEnding})
		return
	}
	p.x.e.core.Subscribe(&actors.Subscribe{
		Topic: topic, As: uri, Port: to, Call: call, Session: p.session.ID(),
		Reply: func(failure *messages.Answer) {
			if failure != nil {
				p.mu.Lock()
				delete(p.topics, of)
				p.mu.Unlock()
			}
			reply(failure)
		},
	})
}

// unsubscribe answers resources/unsubscribe. Who is not subscribed is not told
// so: that is what it wanted.
func (p *passed) unsubscribe(a *front.Ask) {
	of := topicOf{a.Peer, stringOf(a.Params, "uri")}
	p.mu.Lock()
	topic, ok := p.topics[of]
	delete(p.topics, of)
	p.mu.Unlock()
	if ok {
		p.x.e.core.Unsubscribe(&actors.Unsubscribe{Topic: topic, As: of.uri, Port: a.Peer})
	}
	p.result(a, json.RawMessage(`{}`), nil)
}

// Subscribe implements front.Passed.
func (p *passed) Subscribe(call uint64, uri string, to front.Updates, done func(err *Error)) {
	p.mu.Lock()
	over := p.topics == nil || p.ctx.Err() != nil
	if !over {
		p.work.Add(1)
	}
	p.mu.Unlock()
	if over {
		done(errEnding)
		return
	}
	go func() {
		defer p.work.Done()
		topic, err := p.route(uri)
		if err != nil {
			done(err)
			return
		}
		p.begin(call, uri, topic, to, func(failure *messages.Answer) {
			switch {
			case failure == nil:
				done(nil)
			case failure.Err != nil:
				done(failure.Err)
			default:
				done(&Error{Code: messages.CodeResourceNotFound, Server: topic.Server, Message: "the server refused the subscription: " + stringOf(failure.RPCError, "message")})
			}
		})
	}()
}

// Unsubscribe implements front.Passed.
func (p *passed) Unsubscribe(to front.Updates) {
	p.mu.Lock()
	for of := range p.topics {
		if of.to == to {
			delete(p.topics, of)
		}
	}
	p.mu.Unlock()
	p.x.e.core.Unsubscribe(&actors.Unsubscribe{Port: to})
}

// Carried implements front.Passed.
func (p *passed) Carried(server string, result json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	strings := 0
	for rest := result; strings < maxNamed; strings++ {
		uri, behind, found := nextString(rest, uriKey)
		if !found {
			break
		}
		p.links.add(uri, server)
		rest = behind
	}
	if bytes.Contains(result, []byte(`"taskId"`)) && stringOf(result, "resultType") == "task" {
		id := stringOf(result, "taskId")
		if id == "" {
			id = stringOf(jsonrpc.Get(result, "task"), "taskId")
		}
		p.tasks.add(id, server)
	}
}

var uriKey = []byte(`"uri"`)

// nextString finds the next member with this key, at any depth, that is a string.
// The key with its quotes stands nowhere else: inside of strings quotes are
// escaped.
func nextString(text, key []byte) (value string, behind []byte, found bool) {
	for {
		_, after, ok := bytes.Cut(text, key)
		if !ok {
			return "", nil, false
		}
		text = after
		after = bytes.TrimLeft(after, " \t\r\n")
		if len(after) == 0 || after[0] != ':' {
			continue
		}
		after = bytes.TrimLeft(after[1:], " \t\r\n")
		if len(after) == 0 || after[0] != '"' {
			continue
		}
		for end := 1; end < len(after); end++ {
			switch after[end] {
			case '\\':
				end++
				continue
			case '"':
				if s, err := jsonrpc.Unquote(after[:end+1]); err == nil {
					return s, after[end+1:], true
				}
			default:
				continue
			}
			break
		}
	}
}

// Bounds of what a session remembers of results.
const (
	maxNamed       = 1024 // URIs of one result
	maxRemembered  = 4096
	maxRememberedB = 1 << 20
	maxWord        = 8 << 10 // bytes of one
)

// memory is which servers named a word, for the words that were named last.
type memory struct {
	servers map[string][]string
	order   []string // the oldest first
	bytes   int
}

// of are the servers that named a word.
func (m *memory) of(word string) []string { return slices.Clone(m.servers[word]) }

func (m *memory) add(word, server string) {
	if word == "" || len(word) > maxWord {
		return
	}
	if m.servers == nil {
		m.servers = map[string][]string{}
	}
	known, ok := m.servers[word]
	if ok {
		const enough = 8 // to see that it is not one
		if !slices.Contains(known, server) && len(known) < enough {
			m.servers[word] = append(known, server)
		}
		return
	}
	m.servers[word] = []string{server}
	m.order = append(m.order, word)
	m.bytes += len(word)
	for len(m.order) > maxRemembered || m.bytes > maxRememberedB {
		m.bytes -= len(m.order[0])
		delete(m.servers, m.order[0])
		m.order = m.order[1:]
	}
}
