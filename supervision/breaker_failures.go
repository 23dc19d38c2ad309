package supervision

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// onFailed judges the loss of a connection and decides for each call that it
// left unanswered whether it may be sent once more.
func (b *breakerActor) onFailed(ctx *kernel.Context, m *messages.ConnectionFailed) {
	in := b.instances[m.Instance]
	if in == nil {
		return
	}
	now := time.Now()
	wasIdle := in.phase == phaseIdle
	b.unstack(in)
	// One that was idle closes itself, unless it had begun to list its tools
	// anew; ConnectionClosed or ConnectionEnded tells.
	in.phase, in.ended = phaseFailed, false
	b.watchEnd(ctx, in)
	exhausted := !m.Started && isExhausted(m.Evidence.Err)
	// Its place comes free: nobody else is to be evicted for it, nor it once more.
	if wasIdle || in.contact && !exhausted {
		in.ending, in.contact = true, false
		ctx.Send(b.pool, &messages.Ending{Lease: in.lease})
	}
	err := b.deps.Scrub(Describe(b.spec.Name, m.Evidence))
	if !m.Started && !in.retire && b.additional(in) {
		b.onNotScaled(ctx, in, m.Returned, err)
		return
	}
	if exhausted {
		b.onExhausted(ctx, in, m.Returned, err)
		return
	}
	harmless := wasIdle && m.Evidence.Exit != nil && m.Evidence.Exit.Code == 0 && m.Evidence.Exit.Signal == ""
	if !harmless {
		b.tellDeath(m.Started, err)
	}
	// That of a retired one says nothing of those to come, which may be of
	// another configuration.
	if in.retire {
		b.releaseProbe(in)
	} else {
		if !m.Started {
			b.alternate(m.Evidence)
		}
		if !harmless {
			b.count(ctx, now, err, m.Evidence.RetryAfter)
			var lived time.Duration
			if m.Started {
				lived = now.Sub(in.ready)
			}
			b.died(ctx, now, err.Class, lived)
		}
	}
	b.cataloged = b.cataloged && b.others(in)
	b.entry.active.Store(b.anyBusy())
	b.publish() // before anybody hears of it: who does may look at once
	b.lostContacts(ctx, in, err)
	for _, rc := range m.Returned {
		if in.retire && b.leaving == nil && !rc.Written {
			b.onCall(ctx, rc.Call)
			continue
		}
		b.afterLoss(ctx, rc, m.Started, err)
	}
	b.publish()
}

// count tells the policy of a failure, and everybody where that opens it.
func (b *breakerActor) count(ctx *kernel.Context, now time.Time, err *messages.Error, retryAfter time.Duration) {
	if b.answered() {
		b.policy.EndRow()
	}
	before := b.policy.State(now)
	b.policy.OnFailure(now, err.Class, err, retryAfter)
	b.opened(ctx, now, before, err.Message)
}

// answered reports whether an instance has answered a call since it was asked last. Those
// that are busy all the time do not say so themselves.
func (b *breakerActor) answered() bool {
	more := b.heard
	b.heard = false
	for _, in := range b.instances {
		more = in.heard() || more
	}
	return more
}

// heard reports whether the instance has answered a call since it was asked last. What a
// retired one answers says nothing of others.
func (in *instance) heard() bool {
	n := in.gauge.Answered.Load()
	more := n > in.seen
	in.seen = n
	return more && !in.retire
}

// opened tells of a breaker that was in another state before.
func (b *breakerActor) opened(ctx *kernel.Context, now time.Time, before BreakerState, why string) {
	after := b.policy.State(now)
	if after == before {
		return
	}
	b.entry.tally.moved(before, after)
	ctx.Event("breaker", before.String()+" → "+after.String()+": "+why, 0)
	if until, ok := b.policy.OpenUntil(now); ok {
		ctx.After(until.Sub(now), &statusStale{})
	}
}

// countRequest counts the failure of a request that the child had since sent, unless it was
// out together with another one that was counted: those have failed for one cause. in is
// its instance, nil: that is gone, and answered how many calls that had answered.
func (b *breakerActor) countRequest(ctx *kernel.Context, in *instance, answered uint64, sent time.Time, err *messages.Error, retryAfter time.Duration) bool {
	if in != nil {
		b.recovered(ctx, in, answered)
		in.troubled = true
	}
	if !sent.After(b.counted) || in != nil && in.retire {
		return false
	}
	b.counted = time.Now()
	b.count(ctx, b.counted, err, retryAfter)
	return true
}

// onRequestFailed judges the failure of one call and decides whether it is sent
// once more.
func (b *breakerActor) onRequestFailed(ctx *kernel.Context, m *messages.RequestFailed) {
	err := b.deps.Scrub(Describe(b.spec.Name, m.Evidence))
	if !b.countRequest(ctx, b.instances[m.Instance], m.Answered, m.Sent, err, m.Evidence.RetryAfter) {
		b.probeCancelled(m.Call.ID)
	}
	b.publish() // before anybody hears of it: who does may look at once
	call := m.Call
	rc := messages.ReturnedCall{Call: call, Written: !m.Evidence.NotRun}
	switch {
	// An answer that says what went wrong would be the same again at once. The child is
	// there, so that no backoff bounds how often a call is not sent.
	case err.Class == messages.ClassOffline && m.Evidence.HTTPStatus == 0 && b.repeats(rc) && (rc.Written || call.Attempt == 0):
		b.repeat(ctx, rc)
		return
	case rc.Written && !call.Idempotent:
		err = unknownOutcome(err, call, "the request failed and whether it took effect is unknown: ")
	}
	b.refuse(call, err)
	b.publish()
}

// recovered takes notice that the child answered calls after one had failed.
func (b *breakerActor) recovered(ctx *kernel.Context, in *instance, answered uint64) {
	more := answered > in.answered
	in.answered = answered
	if more && in.troubled {
		in.troubled = false
		b.worked(ctx, in)
	}
}

// alternate makes the next start greet in the other era after one that ended
// without any answer: a modern child may die of initialize, or a learned era
// may be out of date.
func (b *breakerActor) alternate(ev messages.Evidence) {
	if ev.Exit == nil && !ev.EOF && !ev.Timeout {
		return
	}
	if b.era() == messages.EraModern {
		b.guess = messages.EraLegacy
	} else {
		b.guess = messages.EraModern
	}
}

// afterLoss repeats a call where that is safe and answers it otherwise.
func (b *breakerActor) afterLoss(ctx *kernel.Context, rc messages.ReturnedCall, started bool, cause *messages.Error) {
	if started && b.repeats(rc) {
		b.repeat(ctx, rc)
		return
	}
	if rc.Written {
		cause = unknownOutcome(cause, rc.Call, "the connection was lost during the call; whether it took effect is unknown: ")
	}
	b.refuse(rc.Call, cause)
}

// maxRepeats bounds how often a call is repeated that waited at one lost child after the
// other. Backoff, breaker and quarantine mostly end that long before.
const maxRepeats = 20

// repeats says whether a call that has no answer may be sent once more: once where a child
// may have seen it. One that no child has seen has not had its turn yet, and goes on to
// wait for it.
func (b *breakerActor) repeats(rc messages.ReturnedCall) bool {
	switch {
	case b.leaving != nil || b.spec.Retry == messages.RetryNever || rc.Call.Attempt >= maxRepeats:
		return false
	case !rc.Written:
		return true
	}
	return !rc.Call.Begun && (b.spec.Retry == messages.RetryAlways || rc.Call.Idempotent)
}

func (b *breakerActor) repeat(ctx *kernel.Context, rc messages.ReturnedCall) {
	again := *rc.Call
	again.Attempt++
	again.Begun = again.Begun || rc.Written
	b.entry.tally.retries.Add(1)
	ctx.Event("retry", "call "+strconv.FormatUint(again.ID, 10), again.Trace)
	b.onCall(ctx, &again)
}

// unknownOutcome is the error for a call that a child may have carried out.
func unknownOutcome(cause *messages.Error, call *messages.Call, what string) *messages.Error {
	err := *cause
	err.Code, err.Retryable = messages.CodeToolExecution, false
	err.Message = what + cause.Message
	err.Hint = "Nothing was repeated. Check what the call may have done before you repeat it."
	if call.Begun {
		err.Hint = "The call was repeated once and lost again. Check what it may have done before you repeat it."
	}
	if !cause.Retryable && cause.Hint != "" {
		err.Hint += " " + cause.Hint // until then it ends the same way, such as by a limit
	}
	return &err
}

// unsentWords are what errors for calls that nobody was sent say at their end.
var unsentWords = strings.NewReplacer(
	"; the call was not sent", "", "; it was not sent", "", "; nothing was sent", "",
	"; the call was not carried out", "", "; this one was not carried out", "",
)

// BegunBefore is the error for a call that is answered without a child, of which cause is
// why: it is cause, unless a child that was lost may have seen the call before. Then that
// is said first, and not that nothing was sent.
func BegunBefore(cause *messages.Error, call *messages.Call) *messages.Error {
	// Who has cancelled it wants to know nothing, and what the call may have done one
	// error says itself.
	if !call.Begun || cause.Code == messages.CodeCancelled || cause.Code == messages.CodeToolExecution {
		return cause
	}
	err := *cause
	err.Message = "the connection was lost during the call, which may have been carried out, and it could not be repeated: " + unsentWords.Replace(cause.Message)
	switch {
	case !call.Idempotent:
		err.Code, err.Retryable = messages.CodeToolExecution, false
		err.Hint = "Check what the call may have done before you repeat it. " + cause.Hint
	case cause.Retryable:
		err.Hint = "The tool says that repeating it does no harm. " + cause.Hint
	}
	return &err
}

// onEnded starts a failed connection again where somebody waits for it, and
// lets it go otherwise.
func (b *breakerActor) onEnded(ctx *kernel.Context, m *messages.ConnectionEnded) {
	in := b.instances[m.Instance]
	if in == nil || in.phase != phaseFailed {
		return
	}
	in.ended = true
	if in.noRoom != nil {
		return // onRoomMade goes on
	}
	now := time.Now()
	wanted := b.heldFor(in) || slices.ContainsFunc(b.contacts, func(c *messages.Contact) bool { return !c.Retry })
	if wanted && !in.retire && b.leaving == nil && b.policy.StartDelay(now) == 0 && b.policy.State(now) != BreakerOpen {
		in.phase, in.ended = phaseConnecting, false
		in.returned = in.dispatched // of the process to come nothing is asked yet
		if in.ending {              // after all it keeps its place
			in.ending, in.contact = false, !b.heldFor(in) && !b.calledFor()
			ctx.Send(b.pool, &messages.EvictRefused{Lease: in.lease, Contact: in.contact})
		}
		ctx.Send(in.pid, &messages.Connect{Era: b.era()})
		b.flushHeld(ctx)
		b.publish()
		return
	}
	b.close(ctx, in, "failed and not needed", nil)
	b.flushHeld(ctx)
}

// dying reports whether there is a lost instance to wait for.
func (b *breakerActor) dying() bool {
	for _, in := range b.instances {
		if in.phase == phaseFailed && !in.retire {
			return true
		}
	}
	return false
}

// spawnFailed is the error where no instance could be made.
func (b *breakerActor) spawnFailed() *messages.Error {
	if b.stuck() >= maxStuck {
		return &messages.Error{
			Code: messages.CodeConnection, Server: b.spec.Name, Class: messages.ClassOther, Retryable: true,
			Message: "lost processes of the server do not end, though they were killed; no more of them are started",
			Hint:    "Ask the user to look for what holds them: a disk or a network that does not answer, or that they are another user's.",
		}
	}
	return &messages.Error{
		Code: messages.CodeConnection, Server: b.spec.Name, Class: messages.ClassOther, Retryable: true,
		Message: "no connection to the server could be made inside metamcp", Hint: "Please report this with the log of the host.",
	}
}

// hold keeps a call until the instance that is dying is gone, and no longer than its
// client waits. Where the client has set no deadline, that is as long as a child may work
// at the call, which is counted anew once one has it, and at least as long as the end of
// an instance takes.
func (b *breakerActor) hold(ctx *kernel.Context, call *messages.Call) {
	b.holdUntil(ctx, call, b.heldUntil(call))
}

// holdUntil keeps a call as hold does, and until then at most; zero: for any time.
func (b *breakerActor) holdUntil(ctx *kernel.Context, call *messages.Call, until time.Time) {
	if !b.dying() {
		b.refuse(call, b.spawnFailed())
		return
	}
	if len(b.held) >= maxHeld {
		b.refuse(call, &messages.Error{
			Code: messages.CodePoolSaturated, Server: b.spec.Name, Tool: call.Tool, Retryable: true,
			Message: fmt.Sprintf("%d calls already wait for %q to be started again", maxHeld, b.spec.Name),
			Hint:    "Wait until the server is connected, then call again.",
		})
		return
	}
	b.holds++
	b.held = append(b.held, heldCall{call, b.holds})
	for _, in := range b.instances {
		if in.phase == phaseFailed && in.owner == b.owner(call.Session) {
			b.wanted(ctx, in)
		}
	}
	if !until.IsZero() {
		ctx.After(time.Until(until), &heldDue{b.holds})
	}
}

// heldUntil is when a call that is held from now on has been so for as long as it may be.
func (b *breakerActor) heldUntil(call *messages.Call) time.Time {
	if t := cmp.Or(call.Timeout, b.spec.Timeout); call.Deadline.IsZero() && t > 0 {
		return time.Now().Add(max(t, ladderTime(b.spec.StopGrace)))
	}
	return call.Deadline
}

// onHeldDue answers a call whose time is up before the instance was gone.
func (b *breakerActor) onHeldDue(m *heldDue) {
	for i, call := range b.held {
		if call.hold == m.hold {
			b.held = append(b.held[:i:i], b.held[i+1:]...)
			b.refuse(call.Call, &messages.Error{
				Code: messages.CodeExecutionTimeout, Class: messages.ClassOffline, Retryable: true,
				Message: strconv.Quote(b.spec.Name) + " was not started again in the time that the call allowed; the call was not sent",
				Hint:    "Call again with a longer timeoutMs.",
			})
			return
		}
	}
}

// flushHeld dispatches what was held, unless the breaker has opened since; what
// still finds no connection is held again.
func (b *breakerActor) flushHeld(ctx *kernel.Context) {
	held := b.held
	b.held = nil
	for _, still := range held {
		call := still.Call
		if call.Cancelled != nil && call.Cancelled.Load() {
			b.refuse(call, Cancelled(call))
			continue
		}
		if err := b.unusable(); err != nil {
			b.refuse(call, err)
			continue
		}
		if !b.passes(call) {
			b.refuse(call, b.policy.Refusal(time.Now(), b.spec.Name))
			continue
		}
		b.cause = wish{Meta: call.Meta}
		in := b.pick(ctx, call.Session)
		if in == nil && b.dying() {
			b.held = append(b.held, still)
			continue
		}
		if in == nil {
			b.refuse(call, b.spawnFailed())
			continue
		}
		b.give(ctx, in, call)
	}
}

// passes says whether the breaker lets a call pass, and that it is the probe; one that
// was so before, and comes back unsent, still is.
func (b *breakerActor) passes(call *messages.Call) bool {
	if !b.policy.Probing() || b.probeCall != call.ID {
		d := b.policy.Allow(time.Now())
		if call.Probe = d.Probe; !d.Allowed {
			return false
		}
	}
	if call.Probe {
		b.probeMark, b.probeCall = 0, call.ID
	}
	return true
}

// onReturned finds another connection for a call that reached one too late.
func (b *breakerActor) onReturned(ctx *kernel.Context, m *messages.CallReturned) {
	if in := b.instances[m.Instance]; in != nil && in.given() {
		in.returned++
	}
	b.onCall(ctx, m.Call)
}

func (b *breakerActor) onCancel(ctx *kernel.Context, m *messages.Cancel) {
	for i, call := range b.held {
		if call.ID == m.Call {
			b.held = append(b.held[:i:i], b.held[i+1:]...)
			b.refuse(call.Call, Cancelled(call.Call))
			return
		}
	}
	b.probeCancelled(m.Call)
	for _, in := range b.instances {
		ctx.Send(in.pid, m)
	}
}

// probeCancelled frees the half-open probe where its call was given up, or is refused
// without a child: that says nothing of the server.
func (b *breakerActor) probeCancelled(call uint64) {
	if b.policy.Probing() && b.probeCall == call {
		b.policy.OnNeutral()
	}
}

// refuse answers a call without a child.
func (b *breakerActor) refuse(call *messages.Call, err *messages.Error) {
	b.probeCancelled(call.ID)
	own := *BegunBefore(err, call)
	own.Server, own.Tool = b.spec.Name, call.Tool
	from := b.ctx.Origin()
	b.ctx.Contain(func() {
		call.Reply.Answer(&messages.Answer{Call: call.ID, Err: &own, Server: b.spec.Name, FromActor: from.Actor, FromSpan: from.Span})
	})
}

// unusable is why no call can be taken at all, nil when it can.
func (b *breakerActor) unusable() *messages.Error {
	switch {
	case b.leaving != nil:
		return b.leaving
	case b.spec.Err != nil:
		return b.deps.Scrub(b.spec.Err) // which quotes what is wrong in the entry
	case b.spec.Disabled:
		return Disabled(b.entry.Spec()) // which is of another place where the entry has moved since
	}
	return nil
}

// Disabled is the error for a server that the configuration switches off.
func Disabled(spec *messages.ServerSpec) *messages.Error {
	return &messages.Error{
		Code: messages.CodeConfiguration, Server: spec.Name,
		Message: strconv.Quote(spec.Name) + " is disabled in the configuration (" + spec.Source + ")",
		Hint:    "If the user wants the server, it can be turned on " + spec.TurnOn() + ".",
	}
}

// NotFound is the error for a server that is not there.
func NotFound(server, why string) *messages.Error {
	return &messages.Error{
		Code: messages.CodeServerNotFound, Server: server,
		Message: "there is no server " + strconv.Quote(server) + ": " + why,
		Hint:    "Call mcp_discover without arguments for the list of servers.",
	}
}

// ShuttingDown refuses what comes while metamcp ends.
func ShuttingDown(server string) *messages.Error {
	return &messages.Error{
		Code: messages.CodeShuttingDown, Server: server, Retryable: true,
		Message: "metamcp is shutting down and takes no more calls; this one was not carried out",
		Hint:    "Call again once metamcp runs again.",
	}
}

// Cancelled is the error for a call that its caller gave up.
func Cancelled(call *messages.Call) *messages.Error {
	return &messages.Error{
		Code: messages.CodeCancelled, Server: call.Server, Tool: call.Tool,
		Message: "the call was cancelled by its caller",
	}
}
