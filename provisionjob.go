package metamcp

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/install"
	"github.com/metamcp/metamcp/integration/pins"
	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/registry"
	"github.com/metamcp/metamcp/integration/safename"
	"github.com/metamcp/metamcp/integration/trust"
	"github.com/metamcp/metamcp/messages"
)

// undoTime bounds what undoes a provision, which must happen even where its
// caller is gone.
const undoTime = 30 * time.Second

// reloadTime bounds the reload after that.
const reloadTime = 3 * time.Second

// provisionJob installs one server that may be installed.
type provisionJob struct {
	p         provisioner
	ask       *messages.Provision // of the request whose job it is
	plan      *install.Plan
	via       registry.Kind     // whose description the plan follows: the server's, or nothing but its package
	values    map[string]string // that the server gets
	option    *option
	options   []*option                // what else there is, best first
	report    messages.ProvisionReport // what is known of it already
	say       *sayer                   // what the plan says goes there
	allowedBy string
	reason    string
}

// Key implements actors.ProvisionJob. The version belongs to it, since another
// one is another server, and so do the values: who gives others must get what they
// do. They are told nobody, so a hash stands for them.
func (j *provisionJob) Key() string {
	key := j.option.key()
	if j.plan.Source.Version != "" {
		key += "@" + j.plan.Source.Version
	}
	if len(j.values) == 0 {
		return key
	}
	values, _ := json.Marshal(j.values) // strings always marshal, and sorted by name
	return fmt.Sprintf("%s with %.8x", key, sha256.Sum256(values))
}

// Do implements actors.ProvisionJob.
func (j *provisionJob) Do(ctx context.Context, step func(string)) *messages.ProvisionReport {
	j.say.to(step)
	r := j.report
	r.Notes = nil // every request has its own
	if left, err := j.do(ctx, step, &r); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		closed := (*forbiddenError)(nil)
		if errors.As(err, &closed) {
			r = *closed.report
			err = r.Err
		} else {
			r.Decision, r.Server = messages.DecisionFailed, ""
		}
		failure := *provisionError(err) // a copy: others may have it, too
		if left != nil {
			failure.Details = append(slices.Clip(failure.Details), notUndone+": "+left.Error())
		}
		r.Err = &failure
		return &r
	}
	r.Decision = messages.DecisionProvisioned
	return &r
}

// do returns with an error why what it had done could not be undone; nil: it was.
func (j *provisionJob) do(ctx context.Context, step func(string), r *messages.ProvisionReport) (left, err error) {
	e := j.p.e
	if err := j.stillAllowed(ctx, r); err != nil { // the look may have taken minutes
		return nil, err
	}
	installed, err := j.plan.Install(ctx)
	if err != nil {
		return nil, err
	}
	// Whatever goes wrong from here on, and be it a panic, leaves nothing.
	var undone *keptServer // that goes then
	done := false
	defer func() {
		defer installed.Release() // what is undone is gone before others look
		if !done {
			left = j.undo(ctx, installed, undone)
		}
	}()
	for _, note := range installed.Notes {
		if !slices.Contains(j.plan.Notes, note) {
			r.Notes = append(r.Notes, readable(note))
		}
	}
	r.Version = installed.Source.Version

	step("starting " + installed.Name + " once, to see that it works")
	if err := j.try(ctx, installed); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	step("keeping " + installed.Name)
	if err := j.stillAllowed(ctx, r); err != nil {
		return nil, err
	}
	locked, fresh, err := installed.Keep(ctx, "", func(name string) bool { return e.Config().Server(name) != nil }, j.allowedBy, j.reason)
	if err != nil {
		return nil, err
	}
	kept := locked.Name
	if fresh { // else somebody else installed it, and uses it
		undone = &keptServer{name: kept, dir: j.p.lock().Dir(locked), pinned: pins.NewStore(e.Config().Settings.StateDir).Has(kept)}
	}
	if err := e.Reload(ctx); err != nil {
		if undone == nil {
			return nil, fmt.Errorf("%s is installed, but the configuration could not be read again: %w", j.report.Package, err)
		}
		undone.unread = ctx.Err() == nil // else it may be in force all the same
		return nil, fmt.Errorf("%s was not installed, since the configuration could not be read again: %w", j.report.Package, err)
	}
	step("asking " + kept + " for its tools")
	// A place in the pool is there in time, or it is said that there is none.
	listing, cancel := context.WithTimeout(ctx, e.Config().Settings.Pool.AcquireTimeout+e.patience(kept, true))
	defer cancel()
	if _, err := e.known(listing, kept); err != nil {
		failure := e.scrubbed(asError(err))
		switch {
		case failure.Code == messages.CodePoolSaturated && ctx.Err() == nil:
			// It has started and listed before, and what others do says nothing of it: a
			// full pool is no reason to throw it away.
			r.Notes = append(r.Notes, fmt.Sprintf("%s is installed, but its tools could not be listed right now: %s", kept, failure.Message))
		case undone == nil:
			return nil, failure // whoever installed it keeps it
		default:
			return nil, j.didNotWork(failure)
		}
	}
	if err := ctx.Err(); err != nil { // the last moment at which nobody wants it any more
		return nil, err
	}
	r.Server = kept
	done = true
	return nil, nil
}

// forbiddenError says that who wanted a server may not have it any more. Its text is
// that of the report's error.
type forbiddenError struct{ report *messages.ProvisionReport }

func (c *forbiddenError) Error() string { return c.report.Err.Error() }

// noMore begins why a server is not installed that was allowed at first.
const noMore = "it was allowed when it was asked for, and is not any more: "

// stillAllowed asks the configuration in force and the trust file, as it is now, whether
// the job's request may have its server; r then says who allows it. Else it returns a
// [forbiddenError] with the report on one that may not. A person's yes is not asked again:
// what refuses it is what no yes opens, and that the plan follows a description which
// nobody trusts any more.
func (j *provisionJob) stillAllowed(ctx context.Context, r *messages.ProvisionReport) error {
	e, ask, o := j.p.e, j.ask, j.option
	setting := settingOf(ask.Consent)
	if ask.Consent == messages.ConsentAsked {
		who := aClient
		if ask.Session == 0 { // a client without one has never been allowed to
			who = theProgram
		}
		if !e.mayProvision(who, ask.Session) {
			setting = trust.Forbidden
		}
	}
	policy := trust.Load(e.Config().Settings.TrustFile)
	o.decision = policy.Decide(&o.candidate, o.confidence, setting)
	hint := j.p.gateHint(o, ask.Session)
	switch person := ask.Consent == messages.ConsentPerson; {
	case !o.decision.Allowed && (!person || o.closedToAll()): // its gate says why
	case j.via == trust.ServerName && o.decision.Via != j.via:
		hint = "Ask again: nothing but the package is used then."
		o.decision.Allowed, o.decision.Trusted, o.decision.Gate = false, false, trust.GateEntry
		o.decision.Checks = append([]trust.Check{{
			Gate: trust.GateEntry, Reason: "the trust file does not trust " + o.candidate.Server + ", whose description in the registry was used",
		}}, o.decision.Checks...)
	default:
		j.allowedBy, j.reason = allowedBy(o, ask.Consent)
		r.Trusted, r.Reason = o.decision.Trusted, j.reason
		return nil
	}
	for _, other := range j.options {
		if other != o {
			other.decision = policy.Decide(&other.candidate, other.confidence, setting)
		}
	}
	return &forbiddenError{j.notAnyMore(ctx, hint)}
}

// notAnyMore is the report on a server that its option's decision refuses by now.
func (j *provisionJob) notAnyMore(ctx context.Context, hint string) *messages.ProvisionReport {
	o, r := j.option, j.report
	options := ranked(j.options)
	for _, other := range options[:min(len(options), optionsShown)] {
		j.p.show(other, j.ask)
	}
	r.Notes, r.Version = nil, "" // notes as in Do
	if !o.never() {
		o.resolved = nil
		if via := o.decision.Via; via == j.via || via == "" && j.via == o.candidate.Kind {
			o.resolved = &resolved{plan: j.plan}
		}
		j.p.refine(ctx, j.ask, o)
		r.Version = o.shown.Version
	}
	o.shown.Reason = noMore + o.decision.Reason()
	r.Trusted, r.Gate = o.decision.Trusted, string(o.decision.Gate)
	return denied(&r, options, o.shown.Reason, hint)
}

// try starts the installed server in a short-lived runtime, shakes hands, lists
// its tools and ends it.
func (j *provisionJob) try(ctx context.Context, installed *install.Installed) error {
	e := j.p.e
	cfg := *e.Config()
	spec, err := config.One(e.opts.Sources, &cfg, installed.Name, installed.Entry)
	if err != nil {
		return err
	}
	cfg.Servers = []*messages.ServerSpec{spec}
	starts, err := TryServers(ctx, &cfg, StartOptions{Version: e.opts.Version, Watchdog: e.opts.Watchdog, Timeout: spec.StartupTimeout, Parallel: 1})
	if err != nil {
		return err
	}
	if len(starts) == 0 {
		return &Error{Code: messages.CodeConfiguration, Message: "what was installed cannot be started", Cause: spec.Err}
	}
	if failure := starts[0].Err; failure != nil {
		return e.scrubbed(j.didNotWork(failure))
	}
	return nil
}

// didNotWork is why what was installed is not kept.
func (j *provisionJob) didNotWork(failure *Error) *Error {
	own := *failure
	own.Message = fmt.Sprintf("%s was installed, did not work and was removed again: %s", j.report.Package, failure.Message)
	return &own
}

// notUndone says that something is left of a provision that failed.
const notUndone = "what was done for it could not be undone"

// keptServer is a server in the lock file.
type keptServer struct {
	name, dir string
	pinned    bool // something was accepted before of a server of that name
	unread    bool // the configuration could not be read, so that it was not taken over
}

// undo leaves nothing of what was installed, nor of what was kept of it. Where it
// cannot, the log has it: who asked may be gone.
func (j *provisionJob) undo(ctx context.Context, installed *install.Installed, kept *keptServer) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	defer func() {
		if err != nil {
			j.p.e.log.Warn(notUndone, "package", j.report.Package, "error", err)
		}
	}()
	if kept == nil {
		return installed.Discard()
	}
	spec := j.p.e.Config().Server(kept.name)
	_, err = j.p.lock().Remove(ctx, kept.name)
	removed := err == nil
	if errors.Is(err, provisioned.ErrNotProvisioned) {
		err = nil // somebody else removed it
	}
	e := j.p.e
	if !e.core.Closed() {
		// A host that ends meanwhile takes no configuration over, and needs none.
		reloading, cancel := context.WithTimeout(ctx, reloadTime)
		defer cancel()
		if reloadErr := e.Reload(reloading); reloadErr != nil && !kept.unread && !e.core.Draining() {
			err = errors.Join(err, fmt.Errorf("the configuration could not be read again: %w", reloadErr))
		}
	}
	// It may have listed its tools while it was given up.
	if removed && spec != nil && spec.Provisioned != nil && spec.Provisioned.Dir == kept.dir {
		if discardErr := e.discard(ctx, spec, !kept.pinned); discardErr != nil {
			err = errors.Join(err, fmt.Errorf("what it listed could not be deleted: %w", discardErr))
		}
	}
	return err
}

// discard deletes what a server has listed that is gone, and what was accepted of that
// where accepted is set.
func (e *Engine) discard(ctx context.Context, spec *messages.ServerSpec, accepted bool) error {
	discarding, cancel := context.WithTimeout(ctx, reloadTime)
	defer cancel()
	if !e.core.Closed() {
		if err := e.core.Discard(discarding, spec.Name, spec.Hash, accepted); err == nil || discarding.Err() != nil {
			return err
		}
	}
	state := e.Config().Settings.StateDir // nobody looks after it any more
	err := index.NewCache(state, safename.SafeName).Discard(spec.Name)
	if accepted {
		err = errors.Join(err, pins.NewStore(state).Forget(ctx, spec.Name))
	}
	return err
}
