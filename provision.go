package metamcp

import (
	"context"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/integration/lazyregexp"
	"github.com/metamcp/metamcp/integration/scrub"
	"github.com/metamcp/metamcp/integration/secrets"
	"github.com/metamcp/metamcp/integration/telemetry"
	"github.com/metamcp/metamcp/messages"
)

// The parts of a [ProvisionAnswer].
type (
	// ProvisionDecision says in one word what became of a request.
	ProvisionDecision = messages.ProvisionDecision
	// ProvisionOption is a server that could be installed.
	ProvisionOption = messages.ProvisionOption
	// ProvisionVariable is an environment variable that a server reads.
	ProvisionVariable = messages.ProvisionVariable
	// ProvisionStep is one step on the way.
	ProvisionStep = messages.ProvisionStep
)

// The decisions.
const (
	DecisionLocal       = messages.DecisionLocal
	DecisionProvisioned = messages.DecisionProvisioned
	DecisionRecommended = messages.DecisionRecommended
	DecisionDenied      = messages.DecisionDenied
	DecisionNothing     = messages.DecisionNothing
)

// Bounds of what one may say, in bytes.
const (
	maxIntent  = 4 << 10
	maxContext = 16 << 10
)

// ProvisionRequest says what somebody needs.
type ProvisionRequest struct {
	// Intent is what is needed, and may name a server or package.
	Intent string `json:"intent"`
	// Context is what else was said; it names nothing.
	Context string `json:"context,omitempty"`
	// AutoProvision asks for what fits to be installed where it is trusted.
	AutoProvision bool `json:"autoProvision,omitempty"`

	// Person says that a person saw the option Choice and wants it installed,
	// trusted or not. What is blocked, imitates others or was deleted stays out.
	Person bool   `json:"-"`
	Choice string `json:"-"` // a [ProvisionOption.Key]
	// ChoiceVersion is the version in which a person saw what is to be installed:
	// another one is not. "": none was shown.
	ChoiceVersion string `json:"-"`
	// DryRun installs nothing and says what would be.
	DryRun bool `json:"-"`
	// Whole has the answer tell all of Missing and Matches, for a person who chooses
	// among them. Else they keep to the token budget, and a match without an entry may
	// be one that had no room for it.
	Whole bool `json:"-"`
	// Env are variables for the server. Secrets must be references such as
	// ${NAME}: what is here is written to disk.
	Env map[string]string `json:"-"`
	// Progress, where not nil, is called with each step as it begins, in order,
	// on the goroutine of Provision. One that is slow gets the newest 64 of what it
	// has not seen, and the oldest beyond them are lost.
	Progress func(s ProvisionStep) `json:"-"`
}

// ProvisionAnswer is what became of a request. It keeps to the configured
// token budget, but for what [ProvisionRequest.Whole] asks for.
type ProvisionAnswer struct {
	Decision   ProvisionDecision `json:"decision"`
	Source     string            `json:"source,omitempty"` // "local", "registry", "cache", "built-in", "gallery" or "name"
	Confidence float64           `json:"confidence"`
	// Server can be called now, Package in this Version was chosen.
	Server  string `json:"server,omitempty"`
	Package string `json:"package,omitempty"`
	Version string `json:"version,omitempty"`
	// Reason says who allowed it, or which gate was closed.
	Reason string `json:"reason,omitempty"`
	// Denied is set where installing was asked for and did not happen.
	Denied *Error `json:"denied,omitempty"`
	// Tools can be called now: those that fit, or all of a new server.
	Tools []MatchLine `json:"tools,omitempty"`
	// Matches could be installed, best first.
	Matches []ProvisionOption `json:"matches,omitempty"`
	// Unknown are names in the intent that nobody knows: what is in Matches is
	// something else.
	Unknown []string `json:"unknown,omitempty"`
	// Missing are values that are needed and that nobody has given.
	Missing []ProvisionVariable `json:"missing,omitempty"`
	Omitted int                 `json:"omitted,omitempty"`
	Notes   []string            `json:"notes,omitempty"`

	missing []ProvisionVariable // all of Missing, whole
}

// Provision finds a server for what is needed: among the configured ones, else
// in the registry; and where that was asked for, and every gate of trust is
// open, it installs, starts and keeps it. A server that may not be installed is
// no error; an error is always an *[Error], and nothing is left of what failed.
// When ctx ends, what nobody else waits for is undone; so it is when Progress panics or
// calls [runtime.Goexit].
func (e *Engine) Provision(ctx context.Context, req ProvisionRequest) (*ProvisionAnswer, error) {
	id := front.NextCall()
	return e.provision(ctx, req, messages.Meta{Trace: id}, theProgram, e.telemetry.BeginProvision(ctx, id))
}

// requester is who wants a server.
type requester int

const (
	aClient    requester = iota // of the session that the request names; without one it is nobody
	theProgram                  // that holds the engine, or a person at its shell
)

func (e *Engine) provision(ctx context.Context, req ProvisionRequest, meta messages.Meta, who requester, span *telemetry.Provision) (*ProvisionAnswer, error) {
	begun := time.Now()
	p := &messages.Provision{
		Meta: meta, ID: meta.Trace, Intent: req.Intent, Context: req.Context, Choice: req.Choice, ChoiceVersion: req.ChoiceVersion, DryRun: req.DryRun, Env: req.Env,
		Cancelled: new(atomic.Bool),
	}
	ended := func(report *messages.ProvisionReport) {
		report.Err = e.scrubbed(report.Err)
		outcome := outcomeOK
		if report.Err != nil {
			outcome = string(report.Err.Code)
		}
		span.End(string(report.Decision), outcome)
		if e.audit != nil {
			e.audit.provisioned(p, &req, report, outcome, begun)
		}
	}
	report := e.refusedRequest(&req)
	if cause := ctx.Err(); report == nil && cause != nil {
		report = &messages.ProvisionReport{Decision: messages.DecisionFailed, Err: &Error{
			Code: messages.CodeCancelled, Cause: cause, Message: "the request for a server was cancelled by its caller before it was made: " + cause.Error(),
			Hint: "Nothing was looked for or installed.",
		}}
	}
	if report == nil {
		p.Consent = e.consent(&req, who, meta.Session)
		port := &provisionPort{wake: make(chan struct{}, 1)}
		p.Reply = port
		e.core.Provision(p)
		heard := false
		defer func() {
			if !heard { // Progress panicked, or called runtime.Goexit
				e.core.CancelProvision(p, notHeard)
				ended(&messages.ProvisionReport{Decision: messages.DecisionFailed, Err: &Error{
					Code: messages.CodeCancelled, Message: "the request for a server was cancelled: " + notHeard,
				}})
			}
		}()
		report = port.wait(ctx, req.Progress)
		heard = true
		if report == nil {
			e.core.CancelProvision(p, "the caller gave up: "+ctx.Err().Error())
			report = &messages.ProvisionReport{Decision: messages.DecisionFailed, Err: &Error{
				Code: messages.CodeCancelled, Cause: ctx.Err(), Message: "the request for a server was cancelled by its caller: " + ctx.Err().Error(),
				Hint: "What was being installed for it alone is undone.",
			}}
		}
	}
	ended(report)
	if report.Decision == messages.DecisionFailed {
		return nil, report.Err
	}
	a := e.provisionAnswer(report, req.Whole)
	clean := withoutSecrets(e, a)
	clean.Denied = a.Denied // which was scrubbed as an error, and has a cause
	clean.missing = a.missing
	return clean, nil
}

// filledIn is what is filled in when a server starts.
var filledIn = lazyregexp.New(`\$\{[^{}]*\}`)

// refusedRequest is the report on a request that has no sense; nil: it has.
func (e *Engine) refusedRequest(req *ProvisionRequest) *messages.ProvisionReport {
	bad := func(message, hint string) *messages.ProvisionReport {
		return &messages.ProvisionReport{Decision: messages.DecisionFailed, Err: &Error{Code: messages.CodeValidation, Message: message, Hint: hint}}
	}
	switch {
	case strings.TrimSpace(req.Intent) == "":
		return bad("there is no intent", `Say what is needed, such as {"intent": "take screenshots of web pages"}, or name a server exactly.`)
	case len(req.Intent) > maxIntent:
		return bad(fmt.Sprintf("the intent has %d bytes, and %d are the most", len(req.Intent), maxIntent), "Say in a sentence or two what is needed; the rest may go into context.")
	case len(req.Context) > maxContext:
		return bad(fmt.Sprintf("the context has %d bytes, and %d are the most", len(req.Context), maxContext), "Send less of it.")
	}
	for _, name := range slices.Sorted(maps.Keys(req.Env)) {
		if plain := filledIn().ReplaceAllString(req.Env[name], ""); scrub.Secret(name, plain) {
			return bad("the value of "+name+" looks like a secret, and secrets are not written down",
				fmt.Sprintf("Keep it with `metamcp secrets set %[1]s` and give '${secret:%[1]s}', or give %[2]s for the variable of the environment in which metamcp is started.", secrets.NameFor(name), messages.ShellWord("${"+name+"}")))
		}
	}
	return nil
}

// consent says who wants the server, and whether they may.
func (e *Engine) consent(req *ProvisionRequest, who requester, session uint64) messages.ProvisionConsent {
	switch {
	case req.Person:
		return messages.ConsentPerson
	case !req.AutoProvision:
		return messages.ConsentNone
	case !e.mayProvision(who, session):
		return messages.ConsentForbidden
	}
	return messages.ConsentAsked
}

// mayProvision says whether somebody may have servers installed. A session that
// is not known may not.
func (e *Engine) mayProvision(who requester, session uint64) bool {
	st := &e.Config().Settings
	if !st.AutoProvision {
		return false
	}
	if who == theProgram {
		return true
	}
	known, ok := e.clients.Load(session)
	if !ok {
		return false
	}
	c := known.(client)
	if c.noProvision || len(st.ProvisionClients) == 0 {
		return !c.noProvision
	}
	name := c.peer.GetClientInfo().Name
	for _, pattern := range st.ProvisionClients {
		if fits, err := path.Match(pattern, name); err == nil && fits {
			return true
		}
	}
	return false
}

// tokenThatForbids is the name of the token that keeps a session from having servers
// installed, where that is why; else "".
func (e *Engine) tokenThatForbids(session uint64) string {
	known, ok := e.clients.Load(session)
	if !ok || !e.Config().Settings.AutoProvision {
		return ""
	}
	if c := known.(client); c.noProvision {
		return c.token
	}
	return ""
}

// provisionPort collects what a provision says, for the goroutine of Provision.
type provisionPort struct {
	wake chan struct{} // capacity 1: there is something to see

	mu     sync.Mutex
	steps  []ProvisionStep // that Provision has not seen: there are few
	report *messages.ProvisionReport
}

// Stepped implements messages.ProvisionPort.
func (p *provisionPort) Stepped(s ProvisionStep) {
	const enough = 64
	p.mu.Lock()
	if len(p.steps) == enough { // nobody looks
		p.steps = p.steps[1:]
	}
	p.steps = append(p.steps, s)
	p.mu.Unlock()
	p.poke()
}

// Ended implements messages.ProvisionPort.
func (p *provisionPort) Ended(r *messages.ProvisionReport) {
	p.mu.Lock()
	p.report = r
	p.mu.Unlock()
	p.poke()
}

func (p *provisionPort) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// wait returns the report, nil where ctx ended first.
func (p *provisionPort) wait(ctx context.Context, progress func(ProvisionStep)) *messages.ProvisionReport {
	for {
		select {
		case <-p.wake:
		case <-ctx.Done():
		}
		p.mu.Lock()
		steps, report := p.steps, p.report
		p.steps = nil
		p.mu.Unlock()
		if progress != nil {
			for _, s := range steps {
				progress(s)
			}
		}
		if report != nil || ctx.Err() != nil {
			return report
		}
	}
}

// provisionAnswer is a report as its reader wants it. whole is [ProvisionRequest.Whole].
func (e *Engine) provisionAnswer(r *messages.ProvisionReport, whole bool) *ProvisionAnswer {
	a := &ProvisionAnswer{
		Decision: r.Decision, Source: r.Source, Confidence: r.Confidence, Server: r.Server, Package: r.Package, Version: r.Version,
		Reason: r.Reason, Denied: r.Err, Unknown: r.Unknown, Notes: r.Notes,
		missing: r.Missing,
	}
	if r.Err != nil {
		a.Reason = "" // its message says it
	}
	budget := e.budget()
	if r.Err != nil {
		budget.Spend(min(tokens(r.Err), budget.Left()))
	}
	room := budget // for what a person chooses from
	if whole {
		room = index.NewBudget(math.MaxInt)
	}
	a.fitMissing(room)
	for i := range r.Options {
		if i == 0 {
			a.Matches = append(a.Matches, a.fitFirst(room, r.Options[0]))
			continue
		}
		if !room.Spend(tokens(r.Options[i])) {
			a.Omitted += len(r.Options) - i
			a.Notes = append(a.Notes, "The list of servers is cut; say more exactly what is needed.")
			break
		}
		a.Matches = append(a.Matches, r.Options[i])
	}
	var fitting []Match
	cat := e.core.Catalog()
	add := func(entry *index.Entry, confidence float64) {
		t := describeTool(entry)
		t.InputSchema = entry.Tool.InputSchema
		fitting = append(fitting, Match{Tool: t, Score: confidence, Connected: e.connected(t.Server)})
	}
	for _, t := range r.Local {
		if known := cat.Server(t.Server); known != nil {
			if entry := known.Tool(t.Tool); entry != nil && entry.Enabled {
				add(entry, t.Confidence)
			}
		}
	}
	var open, held []*index.Entry
	disabled, ofServer := 0, r.Server != "" && len(r.Local) == 0
	if known := cat.Server(r.Server); ofServer && known != nil {
		open, held, disabled = byAccess(known)
		for _, entry := range open {
			add(entry, r.Confidence)
		}
	}
	a.tell(budget, fitting, e.awayNote)
	switch {
	case !ofServer:
		a.Notes = append(a.Notes, e.heldNotes("", budget)...) // of what would have been found otherwise
	case disabled > 0 && len(open)+len(held) == 0:
		a.Notes = append(a.Notes, fmt.Sprintf("All tools of %q are closed by metamcp.toolRules of the configuration.", r.Server))
	default:
		a.Notes = append(a.Notes, closedNotes(r.Server, held, disabled, budget)...)
	}
	a.Notes = append(a.Notes, markNotes(budget, matchMarks(a.Tools))...)
	return a
}

// tell lists as many tools as the budget has room for, each with its signature,
// which says how to call it in fewer words than the schema; of a tool that has no
// signature, the schema. The first tool of a server that takes no calls for now pays
// for the note on that as well.
func (a *ProvisionAnswer) tell(budget *index.Budget, fitting []Match, away func(server string) *awayNote) {
	short := 0
	asked := map[string]bool{}
	a.Tools = []MatchLine{}
	for i := range fitting {
		l := matchLine(&fitting[i], false, true)
		if l.Signature == "" {
			l = matchLine(&fitting[i], true, false)
		}
		var note *awayNote
		if !asked[l.Server] {
			asked[l.Server] = true
			note = away(l.Server)
		}
		said := note.inBrief()
		if note != nil && tokens(l)+noteTokens(note.whole) <= budget.Left() {
			said = note.whole
		}
		if tokens(l)+noteTokens(said) > budget.Left() && (l.Signature != "" || l.Schema != nil) {
			l.Signature, l.Schema = "", nil
			short++
		}
		if !budget.Spend(tokens(l) + noteTokens(said)) {
			a.Omitted += len(fitting) - i
			a.Notes = append(a.Notes, "The list of tools is cut. Call mcp_discover with this server for the list of its tools.")
			break
		}
		a.Tools = append(a.Tools, l)
		if said != "" {
			a.Notes = append(a.Notes, said)
		}
	}
	if short > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("There was no room for what %s; mcp_discover with server and tool shows it.", counted(short, "tool takes", "tools take")))
	}
}

func (e *Engine) connected(server string) bool {
	entry, ok := e.core.Directory().Lookup(server)
	return ok && entry.Status().Connected
}
