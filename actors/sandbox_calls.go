package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// scriptCall is a call that is out.
type scriptCall struct {
	ask     *messages.ScriptAsk
	call    *messages.Call
	started time.Time
	meant   bool // the tool is what the script's name for it stands for
}

// onAsked does what the script asks for. What it may ask for is bounded by the
// worker, which says where the script is; here it is bounded again, since a
// worker may be broken.
func (a *runActor) onAsked(ctx *kernel.Context, ask *messages.ScriptAsk) {
	if a.ended {
		return
	}
	if ask.Kind != messages.AskResult {
		a.wanted++
	}
	if a.wanted > a.settings.Limits.Calls {
		a.fail(ctx, &messages.ScriptFailure{
			Kind:    messages.FailureCalls,
			Message: fmt.Sprintf("the script made more than %d calls, which is the most that one script may make", a.settings.Limits.Calls),
			Hint:    "Split the work over several scripts, or ask the user to raise metamcp.execute.maxCalls.",
		})
		return
	}
	if len(a.calls)+a.asking >= a.settings.Limits.Concurrent {
		a.reply(&messages.ScriptReply{ID: ask.ID, Err: &messages.ScriptError{
			Code: string(messages.CodeSandbox), Server: ask.Server, Tool: ask.Tool, Retryable: true,
			Message: fmt.Sprintf("%d calls of the script are under way, which is the most", len(a.calls)+a.asking),
		}})
		return
	}
	switch ask.Kind {
	case messages.AskCall:
		a.onCall(ctx, &scriptCall{ask: ask}, ask.Tool)
	case messages.AskDiscover:
		a.onDiscover(ctx, ask)
	case messages.AskResult:
		var want struct {
			ID string `json:"id"`
		}
		_ = json.Unmarshal(ask.Args, &want) // what is no id has no result
		a.asking++
		ctx.Send(ctx.Parent(), &wantResult{a.self, ask.ID, a.run.Session, want.ID})
	}
}

// onCall makes a call of the script one like all others.
func (a *runActor) onCall(ctx *kernel.Context, c *scriptCall, tool string) {
	ask := c.ask
	call := &messages.Call{
		Meta: messages.Meta{Trace: a.run.Trace, Session: a.run.Session}, ID: a.e.opts.NextCall(),
		Server: ask.Server, Tool: tool, Args: ask.Args, Cancelled: &atomic.Bool{},
		Client: a.run.Client, Can: a.run.Can, Log: a.run.Log, Shared: a.run.Shared,
	}
	if ask.TimeoutMs > 0 {
		call.Timeout = time.Duration(min(ask.TimeoutMs, int64(a.settings.Limits.Wall/time.Millisecond)+1)) * time.Millisecond
		call.Deadline = time.Now().Add(call.Timeout)
	}
	tracked(call)
	call.Reply = scriptPort{a.e.sys, a.self, call.Trace}
	if a.run.Begin != nil {
		a.run.Begin(call)
	}
	c.call = call
	a.calls[call.ID] = c
	c.started = a.e.observer.began(messages.TraceCall, call, a.self.GetId())
	if err := a.refused(call); err != nil {
		a.onAnswer(ctx, &messages.Answer{Call: call.ID, Err: err, Server: call.Server})
		return
	}
	if !c.meant { // or they are on record
		a.lostDigits(call, unsafeInteger(call.Args), true)
	}
	own := *call
	a.e.Call(&own)
}

// refused says why a call is not made at all, or nil.
func (a *runActor) refused(call *messages.Call) *messages.Error {
	if err := a.e.Unreachable(call.Server, a.run.Only); err != nil {
		err.Tool = shortName(call.Tool)
		return err
	}
	if len(call.Args) > 0 && (!isObject(call.Args) || !json.Valid(call.Args)) {
		return &messages.Error{
			Code: messages.CodeValidation, Server: shortName(call.Server), Tool: shortName(call.Tool),
			Message: "the arguments are not a JSON object; nothing was sent", Hint: "Pass one object with the tool's arguments.",
		}
	}
	return nil
}

// onAnswer ends a call of the script.
func (a *runActor) onAnswer(ctx *kernel.Context, answer *messages.Answer) {
	c := a.calls[answer.Call]
	if c == nil {
		return
	}
	a.onStands(ctx, &scriptStands{answer.Call, false}) // a call that has ended asks nothing
	delete(a.calls, answer.Call)
	a.e.observer.ended(messages.TraceReturn, c.call, c.started, answer, a.self.GetId())
	if a.ended {
		return // it is on record already
	}
	if tool := a.meant(c, answer); tool != "" {
		c.meant = true
		a.onCall(ctx, c, tool)
		return
	}
	a.done++
	if a.run.Carried != nil && answer.Err == nil {
		a.run.Carried(c.call.Server, answer.Result)
	}
	value, err := scriptValue(answer, c.call, c.ask.Raw, int(a.settings.Limits.HeapBytes/replyShare))
	outcome := OutcomeOK
	if err != nil {
		outcome = err.Code
	} else {
		a.lostDigits(c.call, changedNumber(value), false)
	}
	a.record(c, outcome)
	a.reply(&messages.ScriptReply{ID: c.ask.ID, Value: value, Err: err})
	a.run.Reply.Progressed(a.done)
}

// meant is the tool that a call meant whose server has none of the name, "" where that
// is no tool's. A script that begins before the tools of a server are known, as the
// first one does, could not tell: read_file may stand for read-file.
func (a *runActor) meant(c *scriptCall, answer *messages.Answer) string {
	if answer.Err == nil || answer.Err.Code != messages.CodeToolNotFound || c.meant {
		return ""
	}
	known := a.e.view.Load().Server(c.call.Server)
	if known == nil {
		return ""
	}
	if tool := known.ByIdentifier(c.call.Tool); tool != nil {
		return tool.Tool.Name
	}
	return ""
}

func (a *runActor) record(c *scriptCall, outcome string) {
	if len(a.records) >= maxRunCalls {
		a.more++
		return
	}
	a.records = append(a.records, messages.RunCall{
		Server: shortName(c.call.Server), Tool: shortName(c.call.Tool), Took: time.Since(c.started), Outcome: outcome,
	})
}

// onDiscover searches on a worker goroutine, since a search may wait for
// servers.
func (a *runActor) onDiscover(ctx *kernel.Context, ask *messages.ScriptAsk) {
	sys, self, search := ctx.System(), a.self, a.e.opts.Discover
	found := func(value json.RawMessage, err *messages.Error) { sys.Send(self, &scriptFound{ask.ID, value, err}) }
	a.asking++
	if search == nil {
		found(nil, &messages.Error{Code: messages.CodeSandbox, Message: "this host has no search"})
		return
	}
	run, session, only, args := a.ctx, a.run.Session, a.run.Only, ask.Args
	sys.Go(func(host context.Context) {
		searching, cancel := context.WithCancel(run)
		defer cancel()
		defer context.AfterFunc(host, cancel)()
		found(search(searching, session, args, only))
	}, func(any) {
		found(nil, &messages.Error{Code: messages.CodeSandbox, Message: "the search broke inside metamcp", Hint: "Please report this with the log of the host."})
	})
}

func (a *runActor) onKept(m *keptResultFound) {
	a.asking--
	r := &messages.ScriptReply{ID: m.ask, Value: m.value}
	if m.value == nil {
		r.Err = &messages.ScriptError{
			Code:    string(messages.CodeSandbox),
			Message: fmt.Sprintf("there is no such result any more: the newest %d of this client are kept, for %v", maxKept, keptFor),
			Hint:    "Run the script that made it again.",
		}
	}
	a.reply(r)
}

// reply answers what the script asked for, if it is still there.
func (a *runActor) reply(r *messages.ScriptReply) {
	if !a.ended && a.worker != nil {
		a.worker.Reply(a.run.ID, r)
	}
}

// scriptPort sends the answer to a call to the actor of its run.
type scriptPort struct {
	sys   *kernel.System
	run   *kernel.PID
	trace uint64
}

// Answer implements messages.ReplyPort.
func (p scriptPort) Answer(answer *messages.Answer) {
	p.sys.SendFrom(kernel.Origin{Actor: answer.FromActor, Span: answer.FromSpan}, p.run, &scriptAnswer{answer, p.trace})
}

// Correlation is that of the request which the script came with.
func (a *scriptAnswer) Correlation() uint64 { return a.trace }
