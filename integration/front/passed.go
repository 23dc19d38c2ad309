package front

import (
	"encoding/json"
	"strconv"

	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/messages"
)

// Passed is who answers the requests that go to servers beside calls of the
// spliced tool: what servers have is listed, read and called by its own name.
// Its methods may be called from any goroutine, and none of them blocks.
type Passed interface {
	// Tool returns whose tool a client means by a name that is not one of ours.
	Tool(name string) (server, tool string, ok bool)
	// Takes says whether requests with this method are for Ask. name is the name
	// of the tool in a tools/call, "" in all others.
	Takes(method, name string, era messages.Era) bool
	// Ask begins a request that it takes. It answers a.Reply exactly once; where
	// a result is ours and not a child's, Server of the answer is "".
	Ask(a Ask)
	// Carried is told of each result that a child gave a client, before it is
	// written: what it names may be asked for later.
	Carried(server string, result json.RawMessage)
	// Subscribe makes to hear of changes of a resource until it is unsubscribed.
	// done is called once, with nil where it is so.
	Subscribe(call uint64, uri string, to Updates, done func(err *messages.Error))
	// Unsubscribe ends all that to is subscribed to.
	Unsubscribe(to Updates)
}

// Updates hears of changes of resources; see [Passed].
type Updates interface {
	Updated(uri string, params json.RawMessage)
}

// Ask is one request that goes to a server beside calls. Of the [Request] in it,
// Params is one JSON object or nil, and Server, Tool, Args and Timeout are not set.
type Ask struct {
	Request
	Method string
	// Peer is the client's: subscriptions of a legacy client are those of its
	// session.
	Peer *Peer
}

// passOn begins a request that goes to a server beside calls of the spliced tool.
// took is false where mcp-go has to answer it.
func (c *connection) passOn(in *incoming, era messages.Era, out sink) (e *Entry, took bool) {
	p := &pending{c: c}
	p.ID, p.Call, p.Token, p.Era, p.out, p.Parse, p.passed = in.ID, NextCall(), in.token(), era, out, in.number, true
	p.key = c.keyOf(&p.Entry)
	name := ""
	if in.Method == methodToolsCall {
		name = c.names.of(in.slots[slotName])
		if name == "" {
			return nil, false
		}
		if server, tool, ok := c.opts.Passed.Tool(name); ok {
			p.passed, p.exposedAs = false, name
			return c.exposed(in, p, server, tool), true
		}
	}
	if !c.opts.Passed.Takes(in.Method, name, era) {
		return nil, false
	}
	r, good := c.passedRequest(in, p)
	if !good {
		return nil, true
	}
	if !c.register(&p.Entry, in) {
		return nil, true
	}
	if in.Params != nil && in.Params[0] != '{' {
		p.Answer(&messages.Answer{Call: p.Call, Err: &messages.Error{
			Code: messages.CodeValidation, Message: "params: an object is expected, not " + kindOf(in.Params), Hint: "Send the request as the protocol has it.",
		}})
		return nil, true
	}
	c.opts.Passed.Ask(Ask{Request: r, Method: in.Method, Peer: c.peer})
	return &p.Entry, true
}

// passedRequest is what is known of a request before it is known whose it is.
func (c *connection) passedRequest(in *incoming, p *pending) (r Request, good bool) {
	r = Request{
		Session: c.opts.Session, Call: p.Call, Params: in.Params, Era: p.Era, Transport: p.transport(), Context: in.traceContext(),
		Burst: in.burst, Cancelled: p.Cancelled(), Reply: p,
	}
	if p.Token != nil {
		r.Progress = p
	}
	return r, c.canAsk(in, p, &r)
}

const methodToolsCall = "tools/call"

// exposed begins a call of a server's tool by the name under which it is listed.
func (c *connection) exposed(in *incoming, p *pending, server, tool string) *Entry {
	r, good := c.passedRequest(in, p)
	if !good || !c.register(&p.Entry, in) {
		return nil
	}
	r.Server, r.Tool = server, tool
	if args := in.slots[slotArguments]; !absent(args) {
		if args[0] != '{' {
			p.Answer(&messages.Answer{Call: p.Call, Err: &messages.Error{
				Code: messages.CodeValidation, Server: r.Server, Tool: r.Tool,
				Message: "arguments: an object is expected, not " + kindOf(args), Hint: "Send the arguments as the tool's inputSchema has them.",
			}})
			return nil
		}
		r.Args = args
	}
	c.opts.Engine.Call(r)
	return &p.Entry
}

// codeResourceNotFound is what clients of the older protocol expect.
const codeResourceNotFound = -32002

// failureCode is the JSON-RPC code of an error of ours.
func failureCode(e *messages.Error, era messages.Era) int {
	switch e.Code {
	case messages.CodeResourceNotFound:
		if era != messages.EraModern {
			return codeResourceNotFound
		}
		return codeParams
	case messages.CodeValidation, messages.CodeServerNotFound, messages.CodeToolNotFound, messages.CodeToolDisabled,
		messages.CodePromptNotFound, messages.CodeTaskNotFound:
		return codeParams
	case messages.CodePoolSaturated:
		return codeTooMany
	case messages.CodeShuttingDown:
		return codeShuttingDown
	default:
		return codeInternal
	}
}

// AppendFailure appends the error response that tells a client of a failure of
// ours to answer a request that is no tools/call: what is to be done stands in
// the message, which is all that many clients show, and the whole in data.
func AppendFailure(dst, id []byte, e *messages.Error, era messages.Era) []byte {
	dst = appendHead(dst, id, `,"error":{"code":`)
	dst = strconv.AppendInt(dst, int64(failureCode(e, era)), 10)
	dst = append(dst, `,"message":`...)
	text := e.Message
	if e.Hint != "" {
		text += ". " + e.Hint
	}
	dst = jsonrpc.AppendQuote(dst, text)
	dst = append(dst, `,"data":`...)
	return append(append(dst, errorText(e)...), "}}"...)
}

// carried tells of a result that may name what is asked for later.
func (c *connection) carried(a *messages.Answer) {
	if c.opts.Passed == nil || a.Server == "" || a.Result == nil || !a.Has.May(messages.MemberURI|messages.MemberTaskID) {
		return
	}
	c.opts.Passed.Carried(a.Server, a.Result)
}

// ListChanged tells the client that a list is another one now: the method is one
// of the three notifications for that. A client without a handshake hears of
// what it subscribed to.
func (p *Peer) ListChanged(method string) {
	who, _ := p.subscribers(method)
	for _, l := range who {
		l.told(method, "", nil)
	}
	if len(who) == 0 && p.handshake.Load() && p.Initialized() {
		p.tell(about{method: method}, append(appendNotification(nil, method), '}'))
	}
}

// Updated tells the client that a resource has changed that its session is
// subscribed to.
func (p *Peer) Updated(uri string, params json.RawMessage) {
	line := appendNotification(nil, methodUpdated)
	if params != nil {
		line = append(append(line, `,"params":`...), flat(unsubscribed(updatedParams(uri, params)))...)
	}
	p.tell(about{method: methodUpdated, uri: uri}, append(line, '}'))
}

const methodUpdated = "notifications/resources/updated"

// unsubscribed are params without the number of our own subscription at a modern
// server, which says nothing to a client.
func unsubscribed(params json.RawMessage) json.RawMessage {
	meta := jsonrpc.Get(params, "_meta")
	if jsonrpc.Get(meta, keySubscription) == nil {
		return params
	}
	members, inner := make(map[string]json.RawMessage), make(map[string]json.RawMessage)
	if json.Unmarshal(params, &members) != nil || json.Unmarshal(meta, &inner) != nil {
		return params
	}
	delete(inner, keySubscription)
	delete(members, "_meta")
	var err error
	if len(inner) > 0 {
		members["_meta"], err = json.Marshal(inner)
	}
	out, failed := json.Marshal(members)
	if err != nil || failed != nil {
		return params // raw members of valid JSON always can be written
	}
	return unescapeHTML(out)
}

// updatedParams are a child's params with the URI that the client subscribed to.
func updatedParams(uri string, params json.RawMessage) json.RawMessage {
	start, end, ok := jsonrpc.Index(params, "uri")
	if !ok || string(params[start:end]) == string(jsonrpc.AppendQuote(nil, uri)) {
		return params
	}
	out := append(make([]byte, 0, len(params)+len(uri)), params[:start]...)
	return append(jsonrpc.AppendQuote(out, uri), params[end:]...)
}
