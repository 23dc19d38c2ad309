package httpembed

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/metamcp/metamcp/index/embed"
)

// A lane bounds the requests of one kind, and holds them back for as long as
// the service asks.
type lane struct {
	slots chan struct{}
	mu    sync.Mutex
	until time.Time
	why   *embed.Error
}

func newLane() *lane { return &lane{slots: make(chan struct{}, inFlight)} }

// enter waits for the end of a pause, and then for a slot. The error is why
// there is a pause, where that is longer than ctx has time, or that of ctx.
func (l *lane) enter(ctx context.Context) error {
	for {
		l.mu.Lock()
		wait, why := time.Until(l.until), l.why
		l.mu.Unlock()
		if wait <= 0 {
			break
		}
		if !hasTime(ctx, wait) {
			again := *why
			again.RetryAfter = wait
			return &again
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *lane) leave() { <-l.slots }

// pause holds back all further requests.
func (l *lane) pause(wait time.Duration, why embed.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := time.Now().Add(wait); until.After(l.until) {
		l.until, l.why = until, &why
	}
}

// retry makes a request until it succeeds, is of no use, or time is up.
func (c *Client) retry(ctx context.Context, kind embed.Kind, texts []string) ([][]float32, error) {
	l := c.lanes[kind]
	attempts := c.limits.Attempts
	if kind == embed.Query {
		attempts = min(attempts, 2)
	}
	divisible := kind == embed.Document && len(texts) > 1
	backoff := c.limits.Backoff
	for attempt := 1; ; attempt++ {
		if err := l.enter(ctx); err != nil {
			return nil, err
		}
		vectors, err := c.request(ctx, kind, texts)
		l.leave()
		var e *embed.Error
		if err == nil || ctx.Err() != nil || !errors.As(err, &e) || !repeatable(e) || nobodyThere(e) {
			return vectors, err
		}
		if divisible && tooMuchAtOnce(e, attempt) {
			return nil, &effortError{e}
		}
		wait := withJitter(backoff)
		backoff = min(2*backoff, c.limits.MaxBackoff)
		if e.RetryAfter > 0 {
			const spread = 20                                   // so that not all come at once: up to a twentieth later
			wait = e.RetryAfter + rand.N(e.RetryAfter/spread+1) //nolint:gosec // jitter is no secret
		}
		if e.Reason == embed.RateLimited {
			l.pause(wait, *e)
		}
		// A limit of a few requests a minute is waited for as long as time allows.
		if attempt >= attempts && (e.Reason != embed.RateLimited || kind == embed.Query) || !hasTime(ctx, wait) {
			e.RetryAfter = wait
			return nil, e
		}
		c.cfg.Log.Debug("embedding is tried again", "service", c.cfg.Service, "error", e.Message, "attempt", attempt, "in", wait)
		if err := sleep(ctx, wait); err != nil {
			return nil, e // better than to say that time was up
		}
	}
}

// An effortError says that smaller requests have better chances.
type effortError struct{ failure *embed.Error }

func (e *effortError) Error() string { return e.failure.Error() }

// Unwrap returns what to say where that does not help either.
func (e *effortError) Unwrap() error { return e.failure }

// tooMuchAtOnce recognises a server that is too slow for so many texts, and a
// service that takes fewer tokens a minute than they have: it would say "too
// many requests" for ever.
func tooMuchAtOnce(e *embed.Error, attempt int) bool {
	const patience = 3
	switch e.Reason {
	case embed.Unavailable:
		return errors.Is(e, errSlow)
	case embed.RateLimited:
		return attempt >= patience
	default:
		return false
	}
}

// repeatable says whether the same request may succeed later, and soon.
func repeatable(e *embed.Error) bool {
	const soon = time.Hour // a quota that is used up
	return (e.Reason == embed.RateLimited || e.Reason == embed.Unavailable) && e.RetryAfter < soon
}

// nobodyThere recognises an address at which nothing is, which does not change
// within the time of a call. The index tries again when it has waited.
func nobodyThere(e *embed.Error) bool {
	var dns *net.DNSError
	return errors.Is(e, syscall.ECONNREFUSED) || errors.Is(e, syscall.EHOSTUNREACH) || errors.Is(e, syscall.ENETUNREACH) ||
		errors.As(e, &dns) && !dns.IsTimeout
}

// withJitter returns half to one and a half times d.
func withJitter(d time.Duration) time.Duration { return d/2 + rand.N(d+1) } //nolint:gosec // jitter is no secret

func hasTime(ctx context.Context, wait time.Duration) bool {
	deadline, bounded := ctx.Deadline()
	return !bounded || time.Until(deadline) > wait
}

func sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
