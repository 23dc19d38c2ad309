package metamcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/messages"
)

// call begins a call of a tool that was not known a moment ago.
func (p *passed) call(a *front.Ask) {
	name := stringOf(a.Params, "name")
	o, ok := p.x.findTool(p.ctx, name)
	if !ok {
		p.fail(a, p.x.noTool(name))
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
	a.Reply = replyAs{a.Reply, name}
	p.send(a, &messages.Call{Server: o.server, Tool: o.name, Args: args})
}

// replyAs answers a call by the name under which its tool is exposed.
type replyAs struct {
	to   messages.ReplyPort
	name string
}

// Answer implements messages.ReplyPort.
func (r replyAs) Answer(a *messages.Answer) {
	if a.Err != nil {
		own := *a
		own.Err = front.InNameOf(r.name, a.Err)
		a = &own
	}
	r.to.Answer(a)
}

// toolResults answers a call of a tool that was not known a moment ago as those of known
// tools are answered: what fails is a result, so that the model hears of it. Only that
// there is no such tool is an error of the protocol. It stands behind what may mend a
// failure, which has to see it.
type toolResults struct{ to messages.ReplyPort }

// Answer implements messages.ReplyPort.
func (r toolResults) Answer(a *messages.Answer) {
	if a.Err != nil && !errors.Is(a.Err, errNoTool) {
		own := *a
		own.Result, own.Err, own.Server = front.ToolErrorResult(a.Err), nil, ""
		a = &own
	}
	r.to.Answer(a)
}

var errNoTool = errors.New("no tool has this name")

// noTool is the error for a name that no tool has, with the nearest ones.
func (x *exposure) noTool(name string) *Error {
	err := &Error{
		Cause: errNoTool, Code: messages.CodeToolNotFound, Tool: short(name), Message: "there is no tool " + strconv.Quote(short(name)),
		Hint: "tools/list has what can be called directly.",
	}
	const most = 3
	if near := index.Nearest(short(name), x.toolSet().named.all(), most); len(near) > 0 {
		err.Details = near
		err.Message += "; nearest: " + actors.Quoted(near)
	}
	return unlessLate(err, x.late())
}

// send hands a request to its server.
func (p *passed) send(a *front.Ask, call *messages.Call) {
	call.Meta, call.ID = messages.Meta{Trace: a.Call}, a.Call
	call.Cancelled, call.Reply, call.Progress, call.Burst = a.Cancelled, a.Reply, a.Progress, a.Burst
	call.Client, call.Shared, call.Can, call.Log, call.TakesInput, call.Input = a.Client, a.Shared, a.Can, a.Log, a.TakesInput, a.Input
	p.x.e.telemetry.BeginRequest(call, a.Context, a.Era, a.Transport)
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
		if o, ok := kept.named.owner(name); ok && !p.x.lists.stale(o.server, listPrompts) {
			return o, nil
		}
	}
	wait, cancel := p.x.patient(p.ctx)
	defer cancel()
	if o, ok := p.x.lists.all(wait, listPrompts).named.owner(name); ok {
		return o, nil
	}
	return owner{}, unlessLate(&Error{
		Code: messages.CodePromptNotFound, Message: "there is no prompt " + strconv.Quote(short(name)), Hint: "prompts/list has those that there are.",
	}, p.x.late(listPrompts))
}

// notExposed is the error for the completion of what is not exposed.
func notExposed(code messages.Code, kind, name string) *Error {
	return &Error{
		Code: code, Message: "there is no " + kind + " " + strconv.Quote(short(name)) + ": " + kind + "s are not exposed here",
		Hint: "Completion works for what is exposed; the user may add \"" + kind + "s\" to metamcp.expose.",
	}
}

// complete answers completion/complete for what is exposed.
func (p *passed) complete(a *front.Ask) {
	ref := jsonrpc.Get(a.Params, "ref")
	var server string
	switch kind := stringOf(ref, "type"); kind {
	case "ref/prompt":
		name := stringOf(ref, "name")
		if !p.x.prompts {
			p.fail(a, notExposed(messages.CodePromptNotFound, "prompt", name))
			return
		}
		o, err := p.findPrompt(name)
		if err != nil {
			p.fail(a, err)
			return
		}
		server, ref = o.server, withMember(ref, "name", o.name)
	case "ref/resource":
		uri := stringOf(ref, "uri")
		if !p.x.resources {
			p.fail(a, notExposed(messages.CodeResourceNotFound, "resource", uri))
			return
		}
		topic, err := p.routeTemplate(uri)
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
