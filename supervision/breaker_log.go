package supervision

import (
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// What a host's log says of a server's life, for who looks later: a person at the
// client may not have been told.

func (b *breakerActor) warn(msg string, args ...any) {
	if b.deps.Warn != nil {
		b.deps.Warn(msg, append([]any{"server", b.spec.Name}, args...)...)
	}
}

// tellDeath says why a server is not there any more, or did not come.
func (b *breakerActor) tellDeath(started bool, err *messages.Error) {
	if started {
		b.warn("a server was lost", "error", err.Message, "hint", err.Hint)
		return
	}
	b.warn("a server did not start", "error", err.Message, "hint", err.Hint)
}

// died tells the policy of a death, and everybody where that puts the server into
// quarantine.
func (b *breakerActor) died(ctx *kernel.Context, now time.Time, class messages.Class, lived time.Duration) {
	before, was := b.policy.State(now), b.policy.Quarantined(now)
	b.policy.OnDeath(now, class, lived)
	if was || !b.policy.Quarantined(now) {
		return
	}
	b.aside = true
	refusal := b.policy.Refusal(now, b.spec.Name)
	b.warn("a server is set aside, in quarantine", "for", refusal.RetryAfter.Round(time.Millisecond), "why", refusal.Message)
	b.opened(ctx, now, before, refusal.Message)
	if before == BreakerOpen { // whose end was waited for already, and is later now
		ctx.After(refusal.RetryAfter, &statusStale{})
	}
}

// tellReturn says that a quarantine is over, by time or since the configuration of
// the server has changed.
func (b *breakerActor) tellReturn(now time.Time) {
	if b.aside && !b.policy.Quarantined(now) {
		b.aside = false
		b.warn("a server is back from quarantine; the next call starts it")
	}
}
