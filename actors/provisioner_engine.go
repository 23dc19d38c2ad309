package actors

import (
	"fmt"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// Provision hands a request to the provisioner. Its id must be unique in this
// host, also among calls. It returns at once; the request's port hears of its
// end exactly once, possibly before Provision returns.
func (e *Engine) Provision(p *messages.Provision) {
	switch {
	case e.opts.Provisioner == nil:
		refuseProvision(p, &messages.Error{Code: messages.CodeProvisionDenied, Message: "this host installs no servers", Hint: "The user can add a server with `metamcp add`."})
	case e.draining.Load():
		refuseProvision(p, supervision.ShuttingDown(""))
	default:
		e.sys.Send(e.provisioner, p)
	}
}

// CancelProvision gives a request up; its port hears CANCELLED unless it was
// answered. What it was having installed is undone where nobody else waits for
// it.
func (e *Engine) CancelProvision(p *messages.Provision, reason string) {
	if p.Cancelled != nil {
		p.Cancelled.Store(true)
	}
	e.sys.Send(e.provisioner, &messages.Cancel{Meta: p.Meta, Call: p.ID, Reason: reason})
}

// ProvisionStatus says how the provisioner does.
func (e *Engine) ProvisionStatus() messages.ProvisionStatus {
	if s := e.provisionStatus.Load(); s != nil {
		return *s
	}
	return messages.ProvisionStatus{}
}

func refuseProvision(p *messages.Provision, err *messages.Error) {
	p.Reply.Ended(&messages.ProvisionReport{Decision: messages.DecisionFailed, Err: err})
}

// asCall is a request as the trace shows it.
func asCall(p *messages.Provision) *messages.Call {
	return &messages.Call{Meta: p.Meta, ID: p.ID, Tool: ProvisionTool}
}

func failedProvision(err *messages.Error) *messages.ProvisionReport {
	return &messages.ProvisionReport{Decision: messages.DecisionFailed, Err: err}
}

func cancelledProvision(reason string) *messages.Error {
	return &messages.Error{
		Code: messages.CodeCancelled, Message: "the request for a server was cancelled: " + reason,
		Hint: "What was being installed for it alone is undone.",
	}
}

func brokenProvision(reason any) *messages.ProvisionReport {
	return failedProvision(&messages.Error{
		Code: messages.CodeToolExecution, Message: fmt.Sprintf("looking for a server, or installing it, broke inside metamcp: %v", reason),
		Hint: "Please report this with the log of the host.",
	})
}
