package actors

import (
	"encoding/json"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// Run hands a script to the sandbox. Its id must be unique in this host, also
// among calls. It returns at once; the run's port hears of its end exactly
// once, possibly before Run returns.
func (e *Engine) Run(run *messages.Run) {
	if e.opts.Sandbox == nil {
		refuseRun(run, &messages.Error{Code: messages.CodeSandbox, Message: "this host has no sandbox", Hint: "Call the tools one by one."})
		return
	}
	if e.draining.Load() {
		refuseRun(run, supervision.ShuttingDown(""))
		return
	}
	e.sys.Send(e.sandbox, run)
}

// CancelRun gives a run up; its port hears CANCELLED unless it was over.
func (e *Engine) CancelRun(run *messages.Run, reason string) {
	if run.Cancelled != nil {
		run.Cancelled.Store(true)
	}
	e.sys.Send(e.sandbox, &messages.Cancel{Meta: run.Meta, Call: run.ID, Reason: reason})
}

// KeepResult keeps a JSON value for later scripts of the session and returns
// the id by which they read it; "" where it is too long, the session is 0 or over, or
// the host ends.
func (e *Engine) KeepResult(session uint64, value json.RawMessage) string {
	reply := make(chan string, 1)
	e.sys.Send(e.sandbox, &keepResult{session, value, reply})
	return <-reply
}

// ConfigureSandbox changes the settings of runs that begin from now on.
func (e *Engine) ConfigureSandbox(s SandboxSettings) {
	e.sys.Send(e.sandbox, &configureSandbox{s})
}

// SandboxStatus says how the sandbox does.
func (e *Engine) SandboxStatus() messages.SandboxStatus {
	if s := e.sandboxStatus.Load(); s != nil {
		return *s
	}
	return messages.SandboxStatus{}
}

func refuseRun(run *messages.Run, err *messages.Error) {
	run.Reply.Ended(&messages.RunReport{Err: err})
}

// errShutDown is for what had begun when metamcp ended.
func errShutDown(what string) *messages.Error {
	return &messages.Error{
		Code: messages.CodeShuttingDown, Message: "metamcp shut down while " + what + "; whether it did its work is unknown",
		Hint: "Check what it has done before you repeat it.",
	}
}
