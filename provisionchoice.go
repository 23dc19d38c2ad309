package metamcp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/integration/install"
	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/registry"
	"github.com/metamcp/metamcp/integration/trust"
	"github.com/metamcp/metamcp/messages"
)

// choose decides what becomes of a request.
func (p provisioner) choose(ctx context.Context, ask *messages.Provision, options []*option, notes []string, step func(string)) (*messages.ProvisionReport, actors.ProvisionJob) {
	r := &messages.ProvisionReport{Notes: notes}
	if len(options) == 0 {
		r.Decision, r.Source = messages.DecisionNothing, string(registry.FromRegistry)
		r.Reason = "no server fits"
		r.Notes = append(r.Notes, "No server fits; use other words, or name a server or package exactly.")
		return r, nil
	}
	best := options[0]
	var chosen *option
	switch allowed := allowedOf(options); {
	case ask.Consent == messages.ConsentPerson:
		i := slices.IndexFunc(options, func(o *option) bool { return o.key() == ask.Choice })
		if ask.Choice != "" && i < 0 {
			return failedReport(&Error{Code: messages.CodeServerNotFound, Message: ask.Choice + " is not among what the registry answers any more", Hint: "Look again."}), nil
		}
		chosen = options[max(i, 0)]
		best = chosen
	case len(allowed) == 1:
		chosen = allowed[0]
	case len(allowed) > 1:
		r.Notes = append(r.Notes, fmt.Sprintf("The intent names %d servers, and one is installed at a time; name the one that is meant.", len(allowed)))
	}
	r.Source, r.Confidence, r.Package = string(best.source), best.shown.Confidence, best.candidate.Package
	r.Trusted, r.Gate, r.Reason = best.decision.Trusted, string(best.decision.Gate), best.decision.Reason()
	if ask.Consent == messages.ConsentPerson && (best.never() || best.decision.Gate == trust.GateFile) {
		return denied(r, options, best.decision.Reason(), gateHint(best)), nil
	}
	if chosen == nil {
		if !best.never() {
			p.refine(ctx, ask, best)
			r.Version = best.shown.Version
		}
		if ask.Consent == messages.ConsentNone {
			r.Decision = messages.DecisionRecommended
			r.Options = shownOf(options)
			return r, nil
		}
		if r.Gate == "" {
			r.Reason = "the intent names more than one server"
		}
		return denied(r, options, r.Reason, gateHint(best)), nil
	}

	step("finding out the exact version of " + chosen.candidate.Package)
	allowedBy, reason := chosen.decision.By, chosen.decision.Reason()
	via := chosen.decision.Via
	if ask.Consent == messages.ConsentPerson {
		r.Gate = ""
		if !chosen.decision.Allowed {
			allowedBy, reason = provisioned.APerson, "a person saw what would be installed and said yes"
			if via != trust.ServerName {
				via = chosen.candidate.Kind // nothing but the package was seen
			}
		}
	}
	r.Reason = reason
	opts := p.installOptions(ask, chosen, via)
	say := &sayer{}
	say.to(step)
	opts.Progress = say.say
	plan, err := install.Resolve(ctx, opts, &chosen.server, chosen.candidate, via)
	if err != nil {
		f := failedReport(err)
		f.Source, f.Confidence, f.Package, f.Trusted = r.Source, r.Confidence, r.Package, r.Trusted
		return f, nil
	}
	chosen.take(plan)
	r.Version = plan.Source.Version
	r.Notes = append(r.Notes, plan.Notes...)
	switch {
	case !plan.Installable:
		return denied(r, options, "it cannot be installed: "+plan.Why, "The entry below, where there is one, works in .mcp.json; the user may put it there."), nil
	case len(plan.Missing) > 0:
		names := make([]string, len(plan.Missing))
		for i := range plan.Missing {
			names[i] = plan.Missing[i].Name
			r.Missing = append(r.Missing, variableOf(&plan.Missing[i], true))
		}
		return denied(r, options, "it needs "+strings.Join(names, ", ")+", which nobody has set",
			"Ask the user to set them in the environment in which metamcp is started, or to run `metamcp provision` with --env; do not ask for secrets in the conversation. Then ask again."), nil
	case ask.DryRun:
		r.Decision = messages.DecisionRecommended
		r.Options = shownOf([]*option{chosen})
		r.Notes = append(r.Notes, "This was a dry run: nothing was installed.")
		return r, nil
	}
	return r, &provisionJob{p: p, plan: plan, option: chosen, report: *r, say: say, allowedBy: allowedBy, reason: reason}
}

// sayer passes on what a plan says, to whom it concerns at the time.
type sayer struct{ f atomic.Pointer[func(string)] }

func (s *sayer) to(f func(string)) { s.f.Store(&f) }
func (s *sayer) say(text string)   { (*s.f.Load())(text) }

func allowedOf(options []*option) (allowed []*option) {
	for _, o := range options {
		if o.decision.Allowed {
			allowed = append(allowed, o)
		}
	}
	return allowed
}

func shownOf(options []*option) (shown []messages.ProvisionOption) {
	for _, o := range options[:min(len(options), optionsShown)] {
		shown = append(shown, o.shown)
	}
	return shown
}

// denied is the report on a server that was wanted and is not installed.
func denied(r *messages.ProvisionReport, options []*option, why, hint string) *messages.ProvisionReport {
	r.Decision = messages.DecisionDenied
	r.Options = shownOf(options)
	r.Reason = why
	r.Err = &Error{Code: messages.CodeProvisionDenied, Message: r.Package + " was not installed: " + why, Hint: hint}
	return r
}

// gateHint says what would open the gate that refused a server.
func gateHint(o *option) string {
	switch o.decision.Gate {
	case trust.GateFile:
		return "The user has to mend the trust file; metamcp trust list says what is wrong."
	case trust.GateNamespace, trust.GateEntry:
		return "The user decides: `metamcp provision` installs it after asking, `metamcp trust add` trusts it from now on, or the entry below goes into .mcp.json."
	case trust.GateConfidence:
		return "If it is the right one, name it exactly: use " + o.candidate.Package + "."
	case trust.GateSetting:
		return "The user can install it with `metamcp provision`, or allow this client to with the setting trust.autoProvision."
	case trust.GateStatus, trust.GateBlocked, trust.GateImitation:
		return "Take another one."
	default:
		return "Name the one that is meant."
	}
}

// refine asks the package manager about a server that is only recommended, so
// that its version is exact. Where that fails, what the registry says stays.
func (p provisioner) refine(ctx context.Context, ask *messages.Provision, o *option) {
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	via := o.decision.Via
	if via != trust.ServerName {
		via = o.candidate.Kind
	}
	if plan, err := install.Resolve(ctx, p.installOptions(ask, o, via), &o.server, o.candidate, via); err == nil {
		o.take(plan)
		if !plan.Installable {
			o.shown.Problem = plan.Why
		}
		return
	} else if e := (*install.Error)(nil); errors.As(err, &e) {
		o.shown.Problem = e.Message
	}
}

// take tells what a plan knows better.
func (o *option) take(plan *install.Plan) {
	o.shown.Version = plan.Source.Version
	if plan.Entry.Command != "" {
		o.shown.Install = strings.Join(append([]string{plan.Entry.Command}, plan.Entry.Args...), " ")
	}
	o.shown.Entry, _ = compact(map[string]any{plan.Name: plan.Entry}) // strings always marshal
	o.shown.Environment = nil
	for i := range plan.Needs {
		n := &plan.Needs[i]
		missing := slices.ContainsFunc(plan.Missing, func(m install.Need) bool { return m.Name == n.Name })
		o.shown.Environment = append(o.shown.Environment, variableOf(n, missing))
	}
}

func variableOf(n *install.Need, missing bool) messages.ProvisionVariable {
	v := messages.ProvisionVariable{
		Name: n.Name, Description: n.Description, Required: n.Required, Secret: n.Secret, Choices: n.Choices, Missing: missing,
	}
	if !n.Secret {
		v.Default = n.Default
	}
	return v
}

// installOptions say how a server is installed. What the environment has of the
// variables that it needs is passed on by reference, where its description is
// trusted: a stranger's could name any secret.
func (p provisioner) installOptions(ask *messages.Provision, o *option, via registry.Kind) install.Options {
	opts := install.Options{StateDir: p.e.Config().Settings.StateDir, Values: map[string]string{}}
	if p.e.guard != nil {
		opts.Guard = p.e.guard
	}
	if pkg := o.pkg(); pkg != nil && (via == trust.ServerName || o.candidate.Server == "") {
		for i := range pkg.Environment {
			if v := &pkg.Environment[i]; v.Value == "" && os.Getenv(v.Name) != "" {
				opts.Values[v.Name] = "${" + v.Name + "}"
			}
		}
	}
	for name, value := range ask.Env {
		opts.Values[name] = value
	}
	return opts
}

// failedReport is the report on what broke.
func failedReport(err error) *messages.ProvisionReport {
	return &messages.ProvisionReport{Decision: messages.DecisionFailed, Err: provisionError(err)}
}

// provisionError is an error of a part as the reader of ours wants it.
func provisionError(err error) *Error {
	var e *Error
	var in *install.Error
	var reg *registry.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled):
		return &Error{Code: messages.CodeCancelled, Message: "the request for a server was cancelled", Cause: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: messages.CodeExecutionTimeout, Retryable: true, Message: "the request for a server took too long", Hint: "Try again; the registry or the package manager is slow.", Cause: err}
	case errors.As(err, &in):
		out := &Error{Code: messages.CodeToolExecution, Message: in.Message, Hint: in.Hint, Cause: err}
		switch in.Reason {
		case install.NoTool:
			out.Code = messages.CodeConfiguration
		case install.TimedOut:
			out.Code, out.Retryable = messages.CodeExecutionTimeout, true
		case install.Failed, install.DiskFull:
			out.Retryable = true
		default: // trying again would not help
		}
		for line := range strings.Lines(in.Output) {
			out.Details = append(out.Details, strings.TrimRight(line, "\n"))
		}
		return out
	case errors.As(err, &reg):
		return &Error{Code: messages.CodeValidation, Message: reg.Message, Hint: reg.Hint, Cause: err}
	}
	return &Error{Code: messages.CodeToolExecution, Message: err.Error(), Cause: err}
}
