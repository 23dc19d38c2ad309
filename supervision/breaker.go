package supervision

import (
	"errors"
	"fmt"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// BreakerState is a state of a circuit breaker.
type BreakerState uint8

// The states of a breaker.
const (
	BreakerClosed   BreakerState = iota // calls pass
	BreakerOpen                         // calls are refused until the cooldown is over
	BreakerHalfOpen                     // one call at a time passes as a probe
)

// String returns "closed", "open" or "half-open".
func (s BreakerState) String() string {
	switch s {
	case BreakerClosed:
		return "closed"
	case BreakerOpen:
		return "open"
	case BreakerHalfOpen:
		return "half-open"
	}
	return fmt.Sprintf("breaker(%d)", uint8(s))
}

// Defaults and bounds of a breaker.
const (
	DefaultFailureThreshold = 5
	DefaultCooldown         = 30 * time.Second
	// MaxRetryAfter bounds what a server's Retry-After header can do to us.
	MaxRetryAfter = time.Hour
	// SteadyLife is how long a connection must have lived for its death not
	// to be part of a crash loop.
	SteadyLife = 30 * time.Second
	// probeRecheck is the time left that is named while a probe is out, whose
	// end nobody knows.
	probeRecheck = 5 * time.Second
)

// Decision is a breaker's answer to a call that wants to pass.
type Decision struct {
	Allowed bool
	// Probe marks the one call of the half-open state. Its outcome must reach
	// the breaker, as OnSuccess, OnFailure or OnNeutral, or no other call will
	// ever pass.
	Probe bool
}

// Breaker is the circuit breaker of one server. It outlives the server's
// connections and also remembers how they died, which gives the backoff
// between two starts. Not safe for concurrent use: its actor is the only
// caller.
//
// What counts is one failure per cause: a connection that dies with sixty
// calls in flight is reported once, by OnFailure, not sixty times.
type Breaker struct {
	threshold int
	cooldown  time.Duration
	backoff   Backoff
	random    func() float64

	state     BreakerState // BreakerHalfOpen only once a probe was admitted or came back neutral
	failures  int          // consecutive counted ones
	openUntil time.Time    // while open
	holdUntil time.Time    // furthest Retry-After of the current run of failures
	probing   bool

	lastClass messages.Class
	lastErr   error
	failing   bool // nothing good was heard since the last failure

	deaths    int       // in a row
	notBefore time.Time // next start

	flaps flaps
}

// NewBreaker returns a closed breaker that opens for cooldown after threshold
// consecutive counted failures. Zero or less means the default (5, 30 s).
// random feeds the jitter of the start backoff, a number in [0,1); nil: none.
func NewBreaker(threshold int, cooldown time.Duration, random func() float64) *Breaker {
	b := &Breaker{random: random}
	b.Reconfigure(threshold, cooldown)
	return b
}

// Reconfigure takes new settings over. A breaker that is open stays open for
// as long as it had promised; the new threshold counts from the next failure.
func (b *Breaker) Reconfigure(threshold int, cooldown time.Duration) {
	if threshold <= 0 {
		threshold = DefaultFailureThreshold
	}
	if cooldown <= 0 {
		cooldown = DefaultCooldown
	}
	b.threshold, b.cooldown = threshold, cooldown
}

// Reset forgets everything, for a server whose configuration changed.
func (b *Breaker) Reset() {
	*b = Breaker{threshold: b.threshold, cooldown: b.cooldown, backoff: b.backoff, random: b.random, flaps: flaps{limit: b.flaps.limit, window: b.flaps.window}}
}

// Allow decides whether a call may pass. In the half-open state it admits one
// and refuses the others until that one's outcome is known.
func (b *Breaker) Allow(now time.Time) Decision {
	switch b.State(now) {
	case BreakerClosed:
		return Decision{Allowed: true}
	case BreakerOpen:
		return Decision{}
	case BreakerHalfOpen:
	}
	b.state = BreakerHalfOpen
	if b.probing {
		return Decision{}
	}
	b.probing = true
	return Decision{Allowed: true, Probe: true}
}

// State returns the state at now without changing anything: an open breaker
// whose cooldown is over is half-open.
func (b *Breaker) State(now time.Time) BreakerState {
	if b.state == BreakerOpen && !now.Before(b.openUntil) {
		return BreakerHalfOpen
	}
	return b.state
}

// Probing reports whether a probe is out.
func (b *Breaker) Probing() bool { return b.probing }

// Failures returns the number of consecutive counted failures.
func (b *Breaker) Failures() int { return b.failures }

// OpenUntil returns when the cooldown ends; ok is false unless the breaker is
// open at now.
func (b *Breaker) OpenUntil(now time.Time) (t time.Time, ok bool) {
	if b.State(now) != BreakerOpen {
		return time.Time{}, false
	}
	return b.openUntil, true
}

// LastError returns the last failure, counted or not; a success does not clear it.
// It is nil when there never was one.
func (b *Breaker) LastError() error { return b.lastErr }

// Failing reports whether the last that was heard of the server is a failure,
// counted or a refused credential: a server that answered a request or listed
// its tools since is not shown as one that failed, however far the breaker has
// counted.
func (b *Breaker) Failing() bool { return b.failing }

// OnListed reports that a child was started and listed its tools. The failure
// before is over then, but for the breaker it counts until a request is answered.
func (b *Breaker) OnListed() { b.failing = false }

// OnSuccess reports that the child answered a request of a client: with a
// result, with isError or with a JSON-RPC error, all of which a healthy child
// does. A handshake and its tools/list are none, or a server that dies after
// each of them would be started for ever. It closes a half-open breaker and
// ends the start backoff. While the breaker is open it is the late answer of
// a call that had passed before, and changes nothing.
func (b *Breaker) OnSuccess(now time.Time) {
	switch b.State(now) {
	case BreakerOpen:
		return
	case BreakerHalfOpen:
		b.state, b.probing = BreakerClosed, false
	case BreakerClosed:
	}
	b.failures, b.holdUntil, b.failing = 0, time.Time{}, false
	b.deaths, b.notBefore = 0, time.Time{}
}

// EndRow reports that the child has answered such a request since the last failure: the
// next one begins a row anew. It is told where OnSuccess is not, as of a connection that has
// answered others before, and leaves the start backoff to those which die.
func (b *Breaker) EndRow() {
	if b.state == BreakerClosed {
		b.failures, b.holdUntil = 0, time.Time{}
	}
}

// OnFailure reports that a call or a start failed. retryAfter is what the
// server asked for, 0 for nothing: an opening breaker honours it where it is
// longer than the cooldown, up to [MaxRetryAfter]. A class that does not count
// is remembered as the last error, and frees the probe when one is out: that
// the server refused us says nothing about whether it is well.
func (b *Breaker) OnFailure(now time.Time, class messages.Class, err error, retryAfter time.Duration) {
	b.lastClass, b.lastErr = class, err
	b.failing = b.failing || class != messages.ClassNone
	state := b.State(now)
	if !Counts(class) {
		if state == BreakerHalfOpen {
			b.OnNeutral()
		}
		return
	}
	if retryAfter > 0 {
		if t := now.Add(min(retryAfter, MaxRetryAfter)); t.After(b.holdUntil) {
			b.holdUntil = t
		}
	}
	switch state {
	case BreakerClosed:
		b.failures++
		if b.failures >= b.threshold {
			b.open(now)
		}
	case BreakerHalfOpen:
		b.failures++
		b.open(now)
	case BreakerOpen:
		// The late failure of a call that had passed before: it neither counts
		// nor starts the cooldown anew, or a burst would prolong it at will.
		if b.holdUntil.After(b.openUntil) {
			b.openUntil = b.holdUntil
		}
	}
}

// OnNeutral reports an outcome of the probe that says nothing about the server's
// health: a cancellation, or a call that was never sent. The probe is released
// without being counted and the next call may be one.
func (b *Breaker) OnNeutral() { b.probing = false }

func (b *Breaker) open(now time.Time) {
	b.state, b.probing = BreakerOpen, false
	b.openUntil = now.Add(b.cooldown)
	if b.holdUntil.After(b.openUntil) {
		b.openUntil = b.holdUntil
	}
}

// OnDeath reports that a start failed or that a connection was lost without
// having been asked to end; lived is the time since its handshake, 0 for a
// failed start. For the backoff the class does not matter: a program that lacks
// its key is not to be started in a loop either. After the first death the next
// start may follow at once, after each further one it waits for the [Backoff]. A
// connection that lived for [SteadyLife] ends the series, a handshake does not.
// A class that does not count brings no quarantine nearer either, which would
// refuse calls long after the user has logged in.
func (b *Breaker) OnDeath(now time.Time, class messages.Class, lived time.Duration) {
	if lived >= SteadyLife {
		b.deaths = 0
	}
	b.deaths++
	b.notBefore = now.Add(b.backoff.Delay(b.deaths-1, b.random))
	if !Counts(class) {
		return
	}
	if d := b.flaps.died(now, b.cooldown); d > 0 {
		b.open(now)
		if until := now.Add(d); until.After(b.openUntil) {
			b.openUntil = until
		}
		b.flaps.until = b.openUntil
	}
}

// StartDelay returns how long a new connection has to wait before it may be
// started; 0: at once. It is independent of the breaker's state.
func (b *Breaker) StartDelay(now time.Time) time.Duration {
	return max(b.notBefore.Sub(now), 0)
}

// Refusal returns the error for a call that Allow refused: CIRCUIT_OPEN with
// the class, the last error and the time left. It is written for models,
// which retry at once unless they are told when and what to do instead; the
// clock time in it is in now's location. Retryable is true together with
// RetryAfter, which says from when on: before that every call fails for certain.
func (b *Breaker) Refusal(now time.Time, server string) *messages.Error {
	last := "no details"
	var details []string
	if b.lastErr != nil {
		last = b.lastErr.Error()
		// The code of the inner error would stand in the middle of the sentence.
		var inner *messages.Error
		if errors.As(b.lastErr, &inner) {
			last = inner.Message
			details = inner.Details
		}
		last = oneLine(last)
	}
	class := b.lastClass
	if class == messages.ClassNone {
		class = messages.ClassOther
	}
	e := &messages.Error{
		Code: messages.CodeCircuitOpen, Server: server, Class: class, Retryable: true, Cause: b.lastErr, Details: details,
	}
	if b.State(now) != BreakerOpen {
		e.RetryAfter = probeRecheck
		e.Message = fmt.Sprintf("server %q is being tested with one other call after %s (class %s); last error: %s",
			server, failuresInARow(b.failures), class, last)
		e.Hint = fmt.Sprintf("Do not call this server again before %s (in %s); by then the test will have shown whether it is back. Use other servers meanwhile.",
			now.Add(probeRecheck).Format(clockLayout), inWords(probeRecheck))
		return e
	}
	left := b.openUntil.Sub(now)
	e.RetryAfter = left
	if b.Quarantined(now) {
		e.Message = fmt.Sprintf("server %q is in quarantine: it ended unexpectedly %d times within %s (class %s); last error: %s",
			server, b.flaps.limit, inWords(b.flaps.window), class, last)
		e.Hint = fmt.Sprintf("It comes back by itself at %s (in %s). Use another server, or tell the user what failed.",
			ceilSecond(b.openUntil).Format(clockLayout), inWords(left))
		return e
	}
	e.Message = fmt.Sprintf("server %q is switched off for now after %s (class %s); last error: %s",
		server, failuresInARow(b.failures), class, last)
	e.Hint = fmt.Sprintf("Do not call this server again before %s (in %s); until then every call to it is refused without being tried. Use another server, or tell the user what failed.",
		ceilSecond(b.openUntil).Format(clockLayout), inWords(left))
	return e
}

// clockLayout is how hints name a time of the day.
const clockLayout = time.TimeOnly + " MST"

func failuresInARow(n int) string {
	if n == 1 {
		return "1 failure"
	}
	return fmt.Sprintf("%d failures in a row", n)
}

// ceilSecond rounds up, so that the time named is never too early.
func ceilSecond(t time.Time) time.Time {
	if c := t.Truncate(time.Second); c.Before(t) {
		return c.Add(time.Second)
	}
	return t
}

// inWords renders a time left for people, rounded up to whole seconds below
// two minutes and to whole minutes above.
func inWords(d time.Duration) string {
	s := int64((max(d, 0) + time.Second - 1) / time.Second)
	switch {
	case s < 120:
		return fmt.Sprintf("%d s", s)
	default:
		return fmt.Sprintf("%d min", (s+59)/60)
	}
}
