package actors

import (
	"bytes"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// Outcomes of a call that are no error code of ours.
const (
	OutcomeOK        = "ok"
	OutcomeToolError = "tool-error" // the tool's own isError
	OutcomeRPCError  = "rpc-error"  // the child's JSON-RPC error
)

// ExecuteTool is what a trace calls the tool of a request that is a script.
const ExecuteTool = "mcp_execute"

// CallReport is one call at its end. It is the observer's only during the
// call.
type CallReport struct {
	Call    *messages.Call // as the client made it
	Answer  *messages.Answer
	Started time.Time
	Took    time.Duration
	// Outcome is one of the outcomes here or the code of Answer.Err.
	Outcome string
}

// observer counts calls and tells of them.
type observer struct {
	trace    *Trace
	told     func(*CallReport) // may be nil
	inFlight atomic.Int64
	total    atomic.Uint64
	failed   atomic.Uint64
	refused  atomic.Uint64 // by the tool or its server
}

// began counts a call; kind is what the trace calls it, ended's the same of its
// end.
func (o *observer) began(kind string, call *messages.Call, actor string) time.Time {
	o.inFlight.Add(1)
	o.total.Add(1)
	o.trace.began(kind, call, actor)
	return time.Now()
}

func (o *observer) ended(kind string, call *messages.Call, started time.Time, a *messages.Answer, actor string) {
	o.inFlight.Add(-1)
	outcome := outcomeOf(a)
	switch {
	case a.Err != nil:
		o.failed.Add(1)
	case outcome != OutcomeOK:
		o.refused.Add(1)
	}
	if o.told == nil && !o.trace.watched() {
		return
	}
	r := &CallReport{Call: call, Answer: a, Started: started, Took: time.Since(started), Outcome: outcome}
	o.trace.ended(kind, r, actor)
	if o.told != nil {
		o.told(r)
	}
}

func outcomeOf(a *messages.Answer) string {
	switch {
	case a.Err != nil:
		return string(a.Err.Code)
	case a.RPCError != nil:
		return OutcomeRPCError
	case a.Has.May(messages.MemberIsError) && isToolError(a.Result):
		return OutcomeToolError
	}
	return OutcomeOK
}

var isErrorKey = []byte(`"isError"`)

// isToolError reads the member isError of a result. Many results have it with false
// behind it, which is quickly seen.
func isToolError(result json.RawMessage) bool {
	for rest := []byte(result); ; {
		_, behind, found := bytes.Cut(rest, isErrorKey)
		if !found {
			return false
		}
		if bytes.HasPrefix(bytes.TrimLeft(behind, " \t\r\n:"), []byte("true")) {
			break
		}
		rest = behind
	}
	var r struct {
		IsError bool `json:"isError"`
	}
	return json.Unmarshal(result, &r) == nil && r.IsError
}

// Counts are the calls since the engine was made.
func (e *Engine) Counts() messages.CallCounts {
	return messages.CallCounts{
		InFlight: e.observer.inFlight.Load(), Total: e.observer.total.Load(), Failed: e.observer.failed.Load(), ToolErrors: e.observer.refused.Load(),
		Late: e.conns.late.Load(), Refused: e.conns.refused.Load(),
	}
}

// Observed is call's port for a call that no session makes: what it hears is
// counted and told like a session's. It is used once, before [Engine.Call].
func (e *Engine) Observed(call *messages.Call) messages.ReplyPort {
	return &observedPort{e: e, call: call, inner: call.Reply, started: e.observer.began(messages.TraceRequest, call, "")}
}

type observedPort struct {
	e       *Engine
	call    *messages.Call
	inner   messages.ReplyPort
	started time.Time
}

// Answer implements messages.ReplyPort. It passes the answer on also where telling
// others of it breaks.
func (p *observedPort) Answer(a *messages.Answer) {
	defer p.inner.Answer(a)
	p.e.observer.ended(messages.TraceAnswer, p.call, p.started, a, "")
}
