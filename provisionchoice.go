package metamcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/integration/install"
	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/registry"
	"github.com/metamcp/metamcp/integration/scrub"
	"github.com/metamcp/metamcp/integration/secrets"
	"github.com/metamcp/metamcp/integration/trust"
	"github.com/metamcp/metamcp/messages"
)

// choose decides what becomes of a request. undecided are those of [provisioner.named].
func (p provisioner) choose(ctx context.Context, ask *messages.Provision, options []*option, undecided []localMatch, notes []string, step func(string)) (*messages.ProvisionReport, actors.ProvisionJob) {
	r := &messages.ProvisionReport{Notes: notes}
	if len(options) == 0 {
		r.Decision = messages.DecisionNothing
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
	if ask.Consent == messages.ConsentPerson && best.closedToAll() {
		return denied(r, options, best.decision.Reason(), p.gateHint(best, ask.Session)), nil
	}
	if chosen == nil {
		p.refineAll(ctx, ask, options)
		there, said := p.inThatVersion(ctx, ask, undecided, options)
		if there != nil {
			there.Notes = slices.Concat(r.Notes, there.Notes)
			return there, nil
		}
		r.Notes = append(r.Notes, said...)
		if !best.never() {
			r.Version = best.shown.Version
		}
		if ask.Consent == messages.ConsentNone && !best.never() {
			if best.decision.Gate == trust.GateSetting {
				r.Reason = p.wouldInstall(best)
				best.shown.Reason = r.Reason
			}
			r.Decision = messages.DecisionRecommended
			r.Options = shownOf(options)
			return r, nil
		}
		if r.Gate == "" {
			r.Reason = "the intent names more than one server"
		}
		return denied(r, options, r.Reason, p.gateHint(best, ask.Session)), nil
	}

	step("finding out the exact version of " + chosen.candidate.Package)
	by, reason := allowedBy(chosen, ask.Consent)
	via := chosen.decision.Via
	if ask.Consent == messages.ConsentPerson {
		r.Gate = ""
		if !chosen.decision.Allowed && via != trust.ServerName {
			via = chosen.candidate.Kind // nothing but the package was seen
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
	if there, _ := p.inThatVersion(ctx, ask, undecided, options); there != nil {
		there.Notes = slices.Concat(r.Notes, there.Notes)
		return there, nil
	}
	r.Version = plan.Source.Version
	r.Notes = append(r.Notes, readableAll(plan.Notes)...)
	switch {
	case !plan.Installable:
		return denied(r, options, "it cannot be installed: "+plan.Why, addHint(chosen)), nil
	case ask.ChoiceVersion != "" && ask.ChoiceVersion != r.Version:
		return denied(r, options, fmt.Sprintf("it is version %s now, and version %s was shown", r.Version, ask.ChoiceVersion), "Look again."), nil
	case len(plan.Missing) > 0:
		for i := range plan.Missing {
			r.Missing = append(r.Missing, variableOf(&plan.Missing[i], true))
		}
		return denied(r, options, "it needs "+needsText(r.Missing)+", which nobody has given", missingHint(chosen, r.Missing)), nil
	case ask.DryRun:
		r.Decision = messages.DecisionRecommended
		r.Options = shownOf([]*option{chosen})
		r.Reason = "it would be installed: " + reason
		r.Notes = append(r.Notes, "This was a dry run: nothing was installed.")
		return r, nil
	}
	return r, &provisionJob{
		p: p, ask: ask, plan: plan, via: via, values: opts.Values, option: chosen, options: options, report: *r, say: say, allowedBy: by, reason: reason,
	}
}

// allowedBy says who lets an option be installed, and why: the trust file, or a person
// where that does not.
func allowedBy(o *option, consent messages.ProvisionConsent) (by, reason string) {
	if consent == messages.ConsentPerson && !o.decision.Allowed {
		return provisioned.APerson, "a person saw what would be installed and said yes"
	}
	return o.decision.By, o.decision.Reason()
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
	for i := range r.Options {
		if r.Options[i].Reason == why { // said once is enough
			r.Options[i].Reason = ""
		}
	}
	return r
}

// needsShown bounds in bytes how much of what is missing is named in a sentence or a
// command, of which the first is in any case: strangers say how much there is, and all
// of it is in the answer by itself.
const needsShown = 800

// needsText names what is missing, as what it is.
func needsText(missing []messages.ProvisionVariable) string {
	text := ""
	for i := range missing {
		place := missing[i].Place
		if place == "" {
			place = "variable"
		}
		next := "the " + place + " " + missing[i].Name
		switch {
		case i == 0:
			text = next
		case len(text)+len(next) > needsShown:
			return text + " and " + strconv.Itoa(len(missing)-i) + " more"
		default:
			text += ", " + next
		}
	}
	return text
}

// provisionCommand is what a person types to be asked about it.
func provisionCommand(o *option) string {
	wanted := o.candidate.Package
	if o.version != "" {
		wanted += "@" + o.version
	}
	return "metamcp provision " + messages.ShellWord(wanted)
}

// missingHint says how a server gets what it needs. Strangers have a say in the names, and
// somebody may paste the command into a shell.
func missingHint(o *option, missing []messages.ProvisionVariable) string {
	command := provisionCommand(o)
	variables, more, secret := 0, 0, ""
	for i := range missing {
		m := &missing[i]
		if m.Place == "" {
			variables++
		}
		value, kept := "VALUE", ""
		if m.Secret || scrub.NameSays(m.Name) {
			kept = secrets.NameFor(m.Name)
			value = "${secret:" + kept + "}"
		}
		set := " --set " + messages.ShellWord(m.Name) + "=" + messages.ShellWord(value)
		if more > 0 || i > 0 && len(command)+len(set) > needsShown {
			more++
			continue
		}
		command += set
		secret = cmp.Or(kept, secret)
	}
	hint := "The user can give it with `" + command + "`"
	if more > 0 {
		hint += " and --set for " + strconv.Itoa(more) + " more"
	}
	if secret != "" {
		hint += ", where `metamcp secrets set " + secret + "` keeps the secret"
	}
	if variables == len(missing) && o.own() {
		hint += ", or set it in the environment in which metamcp is started"
	}
	return hint + ". Do not ask for secrets in the conversation. Then ask again."
}

// wouldInstall says of a server that only the asking is missing, or what else.
func (p provisioner) wouldInstall(o *option) string {
	because := "trusted by " + o.decision.By + ", named exactly"
	var missing []messages.ProvisionVariable
	for _, v := range o.shown.Environment {
		if v.Missing {
			missing = append(missing, v)
		}
	}
	switch {
	case !p.e.Config().Settings.AutoProvision:
		return because + ", but the setting trust.autoProvision lets nothing be installed without a person"
	case o.shown.Problem != "":
		return because + ", but it cannot be installed: " + o.shown.Problem
	case len(missing) > 0:
		return "it would be installed with autoProvision once it has " + needsText(missing) + ": " + because
	}
	return "it would be installed with autoProvision: " + because
}

// addHint says how a person has a server that metamcp does not install.
func addHint(o *option) string {
	if o.shown.Entry == nil {
		return "Take another one."
	}
	hint := "The user can put the entry below into the configuration (~/.metamcp/mcp.json)"
	if o.shown.Add != "" {
		hint = "The user can add it with `" + o.shown.Add + "`"
	}
	return hint + "."
}

// gateHint says what would open the gate that refused a server.
func (p provisioner) gateHint(o *option, session uint64) string {
	switch o.decision.Gate {
	case trust.GateFile:
		return "The user has to mend the trust file; metamcp trust list says what is wrong."
	case trust.GateNamespace, trust.GateEntry:
		hint := "The user decides: `" + provisionCommand(o) + "` installs it after asking"
		if o.shown.Add != "" {
			hint += ", `" + o.shown.Add + "` puts it into the configuration"
		}
		if entry := o.candidate.TrustEntry(o.decision.Gate); entry != "" {
			hint += ", `metamcp trust add " + messages.ShellWord(entry) + "` trusts it from now on"
		}
		return hint + "."
	case trust.GateConfidence:
		return "If it is the right one, name it exactly: use " + o.candidate.Package + "."
	case trust.GateSetting:
		if token := p.e.tokenThatForbids(session); token != "" {
			return "The token " + fmt.Sprintf("%q", token) + " of this client was made with --no-provision. The user can install it with `" + provisionCommand(o) + "`, or give the client another token: `metamcp token add " + messages.ShellWord(token) + " --replace`."
		}
		setting := "trust.autoProvision"
		if p.e.Config().Settings.AutoProvision {
			setting = "trust.autoProvisionClients, which names the clients that may"
		}
		return "The user can install it with `" + provisionCommand(o) + "`, or allow this client to with the setting " + setting + "."
	case trust.GateImitation:
		if o.decision.Imitates != "" {
			return "If " + o.decision.Imitates + " is meant, name that exactly; else take another one."
		}
		return "Take another one."
	case trust.GateStatus, trust.GateBlocked:
		return "Take another one."
	default:
		return "Name the one that is meant."
	}
}

// refineAll finds out the exact versions of what is shown: those that one would get,
// which what a registry says need not be.
func (p provisioner) refineAll(ctx context.Context, ask *messages.Provision, options []*option) {
	var asking sync.WaitGroup
	for i, o := range options[:min(len(options), optionsShown)] {
		told := o.candidate.Kind == registry.NPM || o.candidate.Kind == registry.PyPI // an image names whom to ask
		if !o.never() && (i == 0 || told) {
			asking.Go(func() { p.refine(ctx, ask, o) })
		}
	}
	asking.Wait()
}

// refine asks the package manager about a server that is only recommended, so
// that its version is exact. Where that fails, what the registry says stays.
func (p provisioner) refine(ctx context.Context, ask *messages.Provision, o *option) {
	via := p.resolve(ctx, ask, o)
	if plan, err := o.resolved.plan, o.resolved.err; err == nil {
		o.take(plan)
		if !plan.Installable {
			o.shown.Problem = plan.Why
		}
		return
	} else if e := (*install.Error)(nil); errors.As(err, &e) {
		o.shown.Problem = e.Message
		if e.Reason == install.NotFound { // then nobody else gets it either
			o.shown.Entry, o.shown.Install, o.shown.Add = nil, "", ""
		}
	} else if via != trust.ServerName && o.candidate.Server != "" && o.version == "" {
		o.shown.Version = "" // the newest would be installed, which is not known in time
	}
}

// resolve has the package manager asked about a server that is only looked for, once.
// via is whose description counts: the server's, or nothing but its package.
func (p provisioner) resolve(ctx context.Context, ask *messages.Provision, o *option) (via registry.Kind) {
	if via = o.decision.Via; via != trust.ServerName {
		via = o.candidate.Kind
	}
	if o.resolved == nil {
		ctx, cancel := context.WithTimeout(ctx, resolveTime)
		defer cancel()
		plan, err := install.Resolve(ctx, p.installOptions(ask, o, via), &o.server, o.candidate, via)
		o.resolved = &resolved{plan, err}
	}
	return via
}

// take tells what a plan knows better.
func (o *option) take(plan *install.Plan) {
	o.shown.Version = plan.Source.Version
	if plan.Entry.Command != "" || plan.Entry.URL != "" {
		o.tellEntry(&o.shown, plan.Name, &plan.Entry)
	}
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
	if n.Place != provisioned.InEnvironment {
		v.Place = string(n.Place)
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
	opts := install.Options{StateDir: p.e.Config().Settings.StateDir, Values: map[string]string{}, Version: o.version}
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
	if e, ok := err.(*Error); ok { //nolint:errorlint // of one that is wrapped the words around it stay
		return e
	}
	var e *Error
	var in *install.Error
	var reg *registry.Error
	switch {
	case errors.As(err, &e):
		own := *e
		own.Message, own.Cause = strings.Replace(err.Error(), e.Error(), e.Message, 1), err
		return &own
	case errors.Is(err, context.Canceled):
		return &Error{Code: messages.CodeCancelled, Message: "the request for a server was cancelled", Cause: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: messages.CodeExecutionTimeout, Retryable: true, Message: "the request for a server took too long", Hint: "Try again; the registry or the package manager is slow.", Cause: err}
	case errors.As(err, &in):
		out := &Error{Code: messages.CodeToolExecution, Message: readable(in.Message), Hint: readable(in.Hint), Cause: err}
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
			out.Details = append(out.Details, readable(strings.TrimRight(line, "\n")))
		}
		return out
	case errors.As(err, &reg):
		return &Error{Code: messages.CodeValidation, Message: reg.Message, Hint: reg.Hint, Cause: err}
	}
	return &Error{Code: messages.CodeToolExecution, Message: err.Error(), Cause: err}
}
