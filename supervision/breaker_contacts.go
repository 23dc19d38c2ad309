package supervision

import (
	"slices"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// onContact connects to the server where nobody has, so that the catalog gets
// its listing.
func (b *breakerActor) onContact(ctx *kernel.Context, m *messages.Contact) {
	if err := b.unusable(); err != nil {
		b.contacted(m, err)
		return
	}
	connected := b.others(nil)
	if m.Refresh || m.Announced || m.Retry {
		m.Needs = b.owed(m)
	}
	if len(m.Needs) == 0 && (m.Retry || connected && b.cataloged && !m.Refresh) {
		b.contacted(m, nil)
		return
	}
	if len(b.contacts) >= maxContacts {
		b.contacted(m, &messages.Error{
			Code: messages.CodePoolSaturated, Server: b.spec.Name, Retryable: true,
			Message: "too many callers already wait for the server's tools", Hint: "Try again in a moment.",
		})
		return
	}
	m.Since = time.Now()
	b.contacts = append(b.contacts, m)
	if in := b.waiting(); in != nil && !connected { // one that is connected lists them
		b.join(ctx, in, wishOf(m))
	}
	if m.ForCall {
		for _, in := range b.instances {
			b.wanted(ctx, in)
		}
	}
	b.serveContacts(ctx)
}

// waiting returns the first of the instances that wait for their start; nil: none does.
func (b *breakerActor) waiting() *instance {
	var first *instance
	for _, in := range b.instances {
		if in.phase == phaseWaiting && !in.retire && (first == nil || in.n < first.n) {
			first = in
		}
	}
	return first
}

// serveContacts makes sure that a listing is on its way for those who wait for
// one.
func (b *breakerActor) serveContacts(ctx *kernel.Context) {
	b.answerSome(func(c *messages.Contact) bool { return c.Retry && !b.owe(c) }, nil) // nothing is started for it
	if len(b.contacts) == 0 {
		return
	}
	if err := b.unusable(); err != nil {
		b.answerContacts(err)
		return
	}
	now := time.Now()
	var ready *instance
	coming, listing := false, false
	for _, in := range b.instances {
		switch {
		case in.retire || in.phase == phaseClosing:
		case in.phase == phaseFailed:
			coming = coming || b.policy.State(now) != BreakerOpen // or it is not started again
		case in.phase != phaseReady && in.phase != phaseIdle:
			coming = true
		case in.listing:
			listing = true
		case ready == nil || b.sooner(in, ready):
			ready = in
		}
	}
	// One that lists, and may never have done, holds up none that is waited for.
	if listing && (ready == nil || !b.cataloged || !b.waited(ready)) {
		return
	}
	if ready != nil && b.cataloged {
		b.relist(ctx, ready)
		return
	}
	if ready == nil && coming {
		return // it lists once it is connected
	}
	d := b.policy.Allow(now)
	if !d.Allowed {
		b.answerContacts(b.policy.Refusal(now, b.spec.Name))
		return
	}
	if d.Probe {
		b.probeMark, b.probeCall = 0, 0
	}
	if ready != nil {
		if d.Probe {
			b.probeMark = ready.n
		}
		b.relist(ctx, ready)
		return
	}
	b.cause = wishOf(b.contacts[0])
	in := b.pick(ctx, b.contacts[0].Session)
	if in == nil {
		b.answerContacts(b.spawnFailed())
		return
	}
	if d.Probe {
		b.probeMark = in.n
	}
	for _, c := range b.contacts {
		b.join(ctx, in, wishOf(c))
	}
}

// relist has an instance list its tools anew.
func (b *breakerActor) relist(ctx *kernel.Context, in *instance) {
	b.busy(ctx, in, !b.calledFor())
	in.listing = true
	ctx.Send(in.pid, &messages.Relist{})
}

// busy takes an instance off the idle stack for a call, or for contacts alone.
func (b *breakerActor) busy(ctx *kernel.Context, in *instance, contact bool) {
	if in.phase != phaseIdle {
		return
	}
	b.unstack(in)
	in.phase, in.contact = phaseReady, contact
	b.entry.active.Store(true)
	ctx.Send(b.pool, &messages.Used{Lease: in.lease, Contact: contact})
}

func (b *breakerActor) onCataloged(ctx *kernel.Context, m *messages.Cataloged) {
	in := b.instances[m.Instance]
	if in != nil && m.Verdict != 0 {
		ctx.Send(in.pid, &messages.Judged{Verdict: m.Verdict, Listed: m.Listed, Err: m.Err, Fault: m.Fault})
	}
	if in != nil {
		b.tried(in, m)
	}
	if in == nil || in.retire || in.phase == phaseFailed || in.phase == phaseClosing {
		// The listing of a connection that is gone is as good as any other,
		// but that it has none says nothing of the next.
		if m.Err == nil {
			b.answerListed()
		}
		b.serveContacts(ctx)
		return
	}
	in.listing = false
	switch {
	case m.Err == nil:
		in.unlisted, b.cataloged = false, true
		if b.policy.Failing() {
			b.policy.OnListed()
			b.publish() // before anybody hears of it: who does may look at once
		}
	case m.Fault:
		b.unlisted(ctx, in, in.answered, time.Now(), b.deps.Scrub(m.Err), 0)
	}
	b.releaseContact(in) // who was waited for may call now, and that is the probe
	switch {
	case m.Err == nil:
		b.answerListed()
	case b.cataloged && m.Changes > 0:
		b.answerUnlisted(m.Err)
	default:
		b.answerContacts(m.Err)
	}
	b.serveContacts(ctx)
	if in.phase == phaseIdle && b.ephemeral() && !in.keep && in.given() {
		b.close(ctx, in, "ephemeral and idle", nil)
	}
}

// onListingFailed takes notice that a child which is connected did not list its tools.
func (b *breakerActor) onListingFailed(ctx *kernel.Context, m *messages.ListingFailed) {
	err := b.deps.Scrub(describeListing(b.spec.Name, m.Evidence))
	if in := b.instances[m.Instance]; in != nil && !m.Toolless {
		b.unlisted(ctx, in, m.Answered, m.Sent, err, m.Evidence.RetryAfter)
	}
	b.onCataloged(ctx, &messages.Cataloged{Server: b.spec.Name, Instance: m.Instance, Changes: m.Changes, Err: err})
}

// unlisted counts a listing that failed while the server has none, as a start that failed:
// the first listing is a part of that. Otherwise its tools stay known, and calls show how
// it does.
func (b *breakerActor) unlisted(ctx *kernel.Context, in *instance, answered uint64, sent time.Time, err *messages.Error, retryAfter time.Duration) {
	if b.cataloged || in.retire || in.phase != phaseReady && in.phase != phaseIdle {
		return
	}
	in.unlisted = true
	if b.countRequest(ctx, in, answered, sent, err, retryAfter) {
		b.warn("a server did not list its tools", "error", err.Message, "hint", err.Hint)
	}
	b.publish() // before anybody hears of it: who does may look at once
}

// awaited reports whether somebody waits for a listing.
func (b *breakerActor) awaited() bool {
	return slices.ContainsFunc(b.contacts, func(c *messages.Contact) bool { return !c.Background })
}

// givenUp is for a contact in the background whose start nobody else wants any more.
func givenUp(server string) *messages.Error {
	return &messages.Error{
		Code: messages.CodeCancelled, Server: server,
		Message: "nobody waits for the server any more, so that it is not started to list its tools",
	}
}

// contacted answers one who wanted the server's tools.
func (b *breakerActor) contacted(m *messages.Contact, err *messages.Error) {
	b.ctx.Contain(func() { m.Reply.Contacted(m.ID, err) })
}

func (b *breakerActor) answerContacts(err *messages.Error) {
	waiting := b.contacts
	b.contacts = nil
	for _, c := range waiting {
		b.contacted(c, err)
	}
}

// turnContactsAway answers those of one client that have waited for a place for as long
// as they may.
func (b *breakerActor) turnContactsAway(m *messages.TurnAway) {
	b.answerSome(func(c *messages.Contact) bool {
		return c.Of() == m.Client && c.ForCall != m.Contact && !c.Since.After(m.Before)
	}, m.Err)
}

// lostContacts is for those who wait for a listing when in is lost. Where it was not
// the one to bring it they go on to wait: it was retired, or there is another.
func (b *breakerActor) lostContacts(ctx *kernel.Context, in *instance, err *messages.Error) {
	if in.retire || b.others(in) {
		b.serveContacts(ctx)
		return
	}
	b.answerContacts(err)
}

// shownFailing reports whether the server is to be shown as one that failed. A connection
// tells for it where nothing keeps calls from it and its tools are not wanting.
func (b *breakerActor) shownFailing(now time.Time, well bool) bool {
	state, failing := b.policy.State(now), b.policy.Failing()
	switch {
	case state == BreakerOpen:
		return true
	case well:
		return failing && state != BreakerClosed
	}
	return failing || state != BreakerClosed
}

// publish says what is known of the server, for everyone to read.
func (b *breakerActor) publish() {
	now := time.Now()
	s := &messages.Status{Breaker: b.policy.State(now).String(), Failures: b.policy.Failures(), Since: b.since}
	rank, well := -1, false
	alive := make([]live, 0, len(b.instances))
	for _, in := range b.instances {
		s.Instances++
		state, r := messages.StateClosed, 0
		switch in.phase {
		case phaseReady, phaseIdle:
			state, r = messages.StateIdle, 4
			s.Connected, well = true, well || !in.unlisted
		case phaseWaiting, phaseConnecting:
			state, r = messages.StateConnecting, 3
		case phaseFailed:
			state, r = messages.StateFailed, 2
		case phaseClosing:
		}
		if r > rank {
			rank, s.State = r, state
		}
		alive = append(alive, live{in.n, in.pid.GetId(), state, in.retire, in.owner, in.spawned, &in.gauge})
	}
	slices.SortFunc(alive, func(x, y live) int { return x.since.Compare(y.since) })
	b.entry.live.Store(&alive)
	if b.spec.Err != nil {
		s.LastError = b.deps.Scrub(b.spec.Err)
		s.State = messages.StateFailed
	}
	if rank < 2 && b.spec.Err == nil {
		s.State = messages.StateIdle // nothing runs; a call would start it
	}
	if b.shownFailing(now, well) {
		if e, ok := b.policy.LastError().(*messages.Error); ok { //nolint:errorlint // the policy keeps exactly what it was given
			s.LastError = e
			if s.State != messages.StateConnecting {
				s.State = messages.StateFailed
			}
		}
	}
	if b.policy.Quarantined(now) {
		s.LastError = b.policy.Refusal(now, b.spec.Name)
	}
	if until, ok := b.policy.OpenUntil(now); ok {
		s.RetryAt = until
	} else if d := b.policy.StartDelay(now); d > 0 && !s.Connected {
		s.RetryAt = now.Add(d)
	}
	b.entry.tell(s)
	b.tellReturn(now)
}
