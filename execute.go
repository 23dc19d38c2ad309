package metamcp

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/messages"
)

// ExecuteOptions shape one call of a tool.
type ExecuteOptions struct {
	// Timeout is how long the server may take to answer or to tell of progress, the
	// wait until it has the call included, and then from one progress notification to
	// the next; 0: the server's timeoutMs, which begins once it has the call. All in
	// all it has the call for its maxTimeoutMs at most, which cuts a longer Timeout
	// too. For a bound that no progress moves use a ctx with a deadline.
	Timeout time.Duration
}

// Result is a child's answer to a call.
type Result struct {
	// Raw is the child's result object, byte for byte but for secrets, in whose
	// place [REDACTED:KIND] stands.
	Raw json.RawMessage
	// Redacted says how many secrets of which kind were taken out; nil: none.
	Redacted map[string]int
	// IsError is true where the tool itself reports a failure.
	IsError bool
}

// Update is one thing that a running call says: progress, or at the end the
// result.
type Update struct {
	// Progress is the params object of the child's notification; nil in the
	// last update.
	Progress json.RawMessage
	// Result is set in the last update.
	Result *Result
}

// maxProgress bounds the progress that a caller has not read yet; the oldest
// is dropped beyond it, since only the newest tells where a call is.
const maxProgress = 1024

// Execute calls a tool with args, one JSON object or nil, and waits for its
// result. A result with IsError is no error of Execute; an error is always an
// *[Error]. A JSON-RPC error of the child is one with the code
// TOOL_EXECUTION_ERROR, the child's message, and the child's error object in
// Details. When ctx ends the call is cancelled at the child, which may have carried it
// out; where ctx had ended before, nothing is sent. args may be changed once Execute has
// returned.
func (e *Engine) Execute(ctx context.Context, server, tool string, args json.RawMessage, opts ExecuteOptions) (*Result, error) {
	var res *Result
	for u, err := range e.run(ctx, server, tool, args, opts, false) {
		if err != nil {
			return nil, err
		}
		res = u.Result
	}
	return res, nil
}

// Stream is Execute with the child's progress, in order, before the result. A loop
// that is slower than the child gets the newest 1,024 of what it has not seen: the
// oldest beyond them are lost, and the result never is. Leaving the loop early cancels
// the call, whether by break, return, a panic of its body or [runtime.Goexit].
func (e *Engine) Stream(ctx context.Context, server, tool string, args json.RawMessage, opts ExecuteOptions) iter.Seq2[Update, error] {
	return e.run(ctx, server, tool, args, opts, true)
}

func (e *Engine) run(ctx context.Context, server, tool string, args json.RawMessage, opts ExecuteOptions, progress bool) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		if err := checkArgs(server, tool, args); err != nil {
			yield(Update{}, err)
			return
		}
		if err := ctx.Err(); err != nil {
			yield(Update{}, &Error{
				Code: messages.CodeCancelled, Server: server, Tool: tool, Cause: err,
				Message: "the call was cancelled by its caller before it was made: " + err.Error(), Hint: "Nothing was sent.",
			})
			return
		}
		args := slices.Clone(args) // the audit log and the child's pipe may be behind
		answer := make(answerPort, 1)
		id := front.NextCall()
		call := &messages.Call{
			Meta: messages.Meta{Trace: id}, ID: id, Server: server, Tool: tool, Args: args,
			Timeout: opts.Timeout, Cancelled: new(atomic.Bool), Reply: answer,
		}
		if opts.Timeout > 0 {
			call.Deadline = time.Now().Add(opts.Timeout)
		}
		var steps progressPort
		if progress {
			steps = make(progressPort, maxProgress)
			call.Progress = steps
		}
		e.telemetry.BeginCall(ctx, call)
		call.Reply = e.core.Observed(call)
		e.core.Call(call)
		open := true // nobody has answered it or given it up
		defer func() {
			if open { // the loop was left early, and be it by a panic or by runtime.Goexit
				e.core.Cancel(call, "the caller stopped listening")
			}
		}()
		for {
			select {
			case p := <-steps:
				if !yield(Update{Progress: p}, nil) {
					return
				}
			case a := <-answer:
				open = false
				for drained := false; !drained; {
					select {
					case p := <-steps:
						if !yield(Update{Progress: p}, nil) {
							return
						}
					default:
						drained = true
					}
				}
				u, err := resultOf(call, a)
				if u.Result != nil && e.core.Trace().ShowsPayloads() {
					u.Result.Raw = slices.Clone(u.Result.Raw) // the trace may be behind, and the caller's is his
				}
				yield(u, err)
				return
			case <-ctx.Done():
				open = false
				e.core.Cancel(call, "the caller gave up: "+ctx.Err().Error())
				yield(Update{}, &Error{
					Code: messages.CodeCancelled, Server: server, Tool: tool, Cause: ctx.Err(),
					Message: "the call was cancelled by its caller, whether it took effect is unknown: " + ctx.Err().Error(),
					Hint:    "Check what the call may have done before you repeat it.",
				})
				return
			}
		}
	}
}

func checkArgs(server, tool string, args json.RawMessage) error {
	bad := ""
	switch {
	case server == "":
		bad = "no server was named"
	case tool == "":
		bad = "no tool was named"
	case len(args) == 0:
	case jsonrpc.Valid(args) != nil:
		bad = "the arguments are not JSON: " + jsonrpc.Valid(args).Error()
	case firstByte(args) != '{':
		bad = "the arguments are not a JSON object"
	}
	if bad == "" {
		return nil
	}
	return &Error{Code: messages.CodeValidation, Server: server, Tool: tool, Message: bad, Hint: "Nothing was sent. Correct the call."}
}

func firstByte(args json.RawMessage) byte {
	if t := bytes.TrimLeft(args, " \t\r\n"); len(t) > 0 {
		return t[0]
	}
	return 0
}

// resultOf turns an answer into what a Go program expects.
func resultOf(call *messages.Call, a *messages.Answer) (Update, error) {
	switch {
	case a.Err != nil:
		return Update{}, a.Err
	case a.RPCError != nil:
		var e struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(a.RPCError, &e) != nil || e.Message == "" {
			e.Message = string(a.RPCError)
		}
		return Update{}, &Error{
			Code: messages.CodeToolExecution, Server: call.Server, Tool: call.Tool,
			Message: e.Message, Hint: "The server refused the request; it is well otherwise.",
			Details: []string{string(a.RPCError)},
		}
	}
	var head struct {
		IsError bool `json:"isError"`
	}
	if flag := jsonrpc.Get(a.Result, "isError"); flag != nil {
		head.IsError = string(flag) == "true"
	}
	return Update{Result: &Result{Raw: a.Result, Redacted: maps.Clone(a.Redacted), IsError: head.IsError}}, nil
}

// answerPort takes a call's one answer.
type answerPort chan *messages.Answer

// Answer implements messages.ReplyPort.
func (p answerPort) Answer(a *messages.Answer) { p <- a }

// progressPort keeps the newest progress of a call.
type progressPort chan json.RawMessage

// Progress implements messages.ProgressPort. The child's reader is the only
// sender, so making room cannot fail twice.
func (p progressPort) Progress(_ uint64, params json.RawMessage) {
	select {
	case p <- params:
		return
	default:
	}
	select {
	case <-p:
	default:
	}
	select {
	case p <- params:
	default:
	}
}
