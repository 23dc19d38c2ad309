package supervision_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

var errDown = errors.New("connection refused")

func at(d time.Duration) time.Time { return epoch.Add(d) }

// opened returns a breaker (threshold 2, cooldown 30 s) that opened at epoch.
func opened(t *testing.T) *supervision.Breaker {
	t.Helper()
	b := supervision.NewBreaker(2, 30*time.Second, nil)
	b.OnFailure(epoch, messages.ClassOffline, errDown, 0)
	b.OnFailure(epoch, messages.ClassOffline, errDown, 0)
	wantState(t, b, epoch, supervision.BreakerOpen)
	return b
}

func wantState(t *testing.T, b *supervision.Breaker, now time.Time, want supervision.BreakerState) {
	t.Helper()
	if got := b.State(now); got != want {
		t.Fatalf("state is %s, want %s", got, want)
	}
}

func wantDecision(t *testing.T, got, want supervision.Decision) {
	t.Helper()
	if got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

// wantRefused wants a call to be refused, and to be told when another may pass.
func wantRefused(t *testing.T, b *supervision.Breaker, now time.Time, retryIn time.Duration) {
	t.Helper()
	wantDecision(t, b.Allow(now), supervision.Decision{})
	if got := b.Refusal(now, "s").RetryAfter; got != retryIn {
		t.Errorf("retry in %v, want %v", got, retryIn)
	}
}

func TestBreakerOpensAtTheThreshold(t *testing.T) {
	b := supervision.NewBreaker(3, time.Second, nil)
	for range 2 {
		b.OnFailure(epoch, messages.ClassHTTP, errDown, 0)
	}
	wantDecision(t, b.Allow(epoch), supervision.Decision{Allowed: true})
	b.OnSuccess(epoch) // consecutive ones only
	for range 2 {
		b.OnFailure(epoch, messages.ClassStdioExit, errDown, 0)
	}
	wantState(t, b, epoch, supervision.BreakerClosed)
	b.OnFailure(epoch, messages.ClassOther, errDown, 0)
	wantState(t, b, at(400*ms), supervision.BreakerOpen)
	wantRefused(t, b, at(400*ms), 600*ms)
	if until, ok := b.OpenUntil(epoch); !ok || !until.Equal(at(time.Second)) {
		t.Errorf("open until %v, %v", until, ok)
	}
	if _, ok := b.OpenUntil(at(time.Second)); ok {
		t.Error("still open after the cooldown")
	}
}

func TestBreakerDefaults(t *testing.T) {
	b := supervision.NewBreaker(0, 0, nil)
	for range 4 {
		b.OnFailure(epoch, messages.ClassOther, nil, 0)
	}
	wantState(t, b, epoch, supervision.BreakerClosed)
	b.OnFailure(epoch, messages.ClassOther, nil, 0)
	wantState(t, b, at(30*time.Second-1), supervision.BreakerOpen)
	wantState(t, b, at(30*time.Second), supervision.BreakerHalfOpen)
}

func TestBreakerAuthNeverCounts(t *testing.T) {
	b := supervision.NewBreaker(1, time.Second, nil)
	for range 100 {
		b.OnFailure(epoch, messages.ClassAuth, errDown, 0)
	}
	wantState(t, b, epoch, supervision.BreakerClosed)
	if err := b.LastError(); !errors.Is(err, errDown) {
		t.Errorf("last error: %v", err)
	}
}

func TestBreakerHalfOpenAdmitsOneProbe(t *testing.T) {
	b := opened(t)
	now := at(30 * time.Second)
	wantDecision(t, b.Allow(now), supervision.Decision{Allowed: true, Probe: true})
	for range 3 {
		wantRefused(t, b, now, 5*time.Second)
		wantState(t, b, now, supervision.BreakerHalfOpen)
	}
}

func TestBreakerProbeOutcomes(t *testing.T) {
	probeAt := at(30 * time.Second)
	for _, c := range []struct {
		name    string
		outcome func(b *supervision.Breaker)
		want    supervision.BreakerState
		next    supervision.Decision
	}{
		{"success", func(b *supervision.Breaker) { b.OnSuccess(probeAt) },
			supervision.BreakerClosed, supervision.Decision{Allowed: true}},
		{"failure", func(b *supervision.Breaker) { b.OnFailure(probeAt, messages.ClassOffline, errDown, 0) },
			supervision.BreakerOpen, supervision.Decision{}},
		{"cancelled", func(b *supervision.Breaker) { b.OnNeutral() },
			supervision.BreakerHalfOpen, supervision.Decision{Allowed: true, Probe: true}},
		{"auth", func(b *supervision.Breaker) { b.OnFailure(probeAt, messages.ClassAuth, errDown, 0) },
			supervision.BreakerHalfOpen, supervision.Decision{Allowed: true, Probe: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := opened(t)
			if !b.Allow(probeAt).Probe || !b.Probing() {
				t.Fatal("no probe")
			}
			c.outcome(b)
			if b.Probing() {
				t.Error("the probe is still out")
			}
			wantState(t, b, probeAt, c.want)
			if !c.next.Allowed {
				wantRefused(t, b, probeAt, 30*time.Second)
				return
			}
			wantDecision(t, b.Allow(probeAt), c.next)
		})
	}
}

func TestBreakerLateOutcomes(t *testing.T) {
	b := opened(t)
	b.OnSuccess(at(time.Second))
	b.OnFailure(at(20*time.Second), messages.ClassOffline, errDown, 0)
	wantState(t, b, at(30*time.Second-1), supervision.BreakerOpen)
	wantState(t, b, at(30*time.Second), supervision.BreakerHalfOpen)
}

func TestBreakerRetryAfter(t *testing.T) {
	for _, c := range []struct {
		name  string
		after []time.Duration
		want  time.Duration
	}{
		{"none", []time.Duration{0, 0}, 30 * time.Second},
		{"shorter than the cooldown", []time.Duration{0, time.Second}, 30 * time.Second},
		{"longer", []time.Duration{0, 2 * time.Minute}, 2 * time.Minute},
		{"of an earlier failure", []time.Duration{2 * time.Minute, 0}, 2 * time.Minute},
		{"absurd", []time.Duration{0, 1 << 62}, supervision.MaxRetryAfter},
		{"while open", []time.Duration{0, 0, 3 * time.Minute}, 3 * time.Minute},
		{"negative", []time.Duration{-1, -1}, 30 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := supervision.NewBreaker(2, 30*time.Second, nil)
			for _, after := range c.after {
				b.OnFailure(epoch, messages.ClassHTTP, errDown, after)
			}
			wantRefused(t, b, epoch, c.want)
		})
	}
}

func TestBreakerStartDelay(t *testing.T) {
	b := supervision.NewBreaker(100, time.Second, nil)
	want := func(now time.Time, d time.Duration) {
		t.Helper()
		if got := b.StartDelay(now); got != d {
			t.Fatalf("delay is %v, want %v", got, d)
		}
	}
	want(epoch, 0)
	for _, d := range []time.Duration{0, 250 * ms, 500 * ms, time.Second} {
		b.OnDeath(epoch, messages.ClassStdioExit, time.Second) // a handshake was made each time
		want(epoch, d)
	}
	want(at(400*ms), 600*ms)
	want(at(time.Hour), 0)
	for range 50 {
		b.OnDeath(epoch, messages.ClassStdioExit, supervision.SteadyLife-1)
	}
	want(epoch, 30*time.Second)
	b.OnDeath(epoch, messages.ClassStdioExit, supervision.SteadyLife)
	want(epoch, 0)
	b.OnDeath(epoch, messages.ClassStdioExit, 0)
	want(epoch, 250*ms)
	b.OnSuccess(epoch)
	want(epoch, 0)
	b.OnDeath(epoch, messages.ClassStdioExit, 0) // the first of another series
	want(epoch, 0)
}

func TestBreakerRefusal(t *testing.T) {
	b := opened(t)
	e := b.Refusal(at(3*time.Second), "github")
	if e.Code != messages.CodeCircuitOpen || e.Server != "github" || e.Class != messages.ClassOffline ||
		e.RetryAfter != 27*time.Second || !e.Retryable || !errors.Is(e, errDown) {
		t.Errorf("wrong frame: %+v", e)
	}
	for _, s := range []string{`"github"`, "2 failures in a row", "offline", "connection refused"} {
		if !strings.Contains(e.Message, s) {
			t.Errorf("message %q lacks %q", e.Message, s)
		}
	}
	if want := "Do not call this server again before 12:03:07 UTC (in 27 s)"; !strings.HasPrefix(e.Hint, want) {
		t.Errorf("hint %q", e.Hint)
	}
	b.Allow(at(30 * time.Second))
	e = b.Refusal(at(30*time.Second), "github")
	if e.RetryAfter <= 0 || !strings.HasPrefix(e.Hint, "Do not call this server again before ") {
		t.Errorf("refusal beside a probe: %+v", e)
	}
	inner := &messages.Error{Code: messages.CodeConnection, Message: "two\nlines"}
	b.OnFailure(at(30*time.Second), messages.ClassOther, inner, 0)
	if e = b.Refusal(at(30*time.Second), "github"); !strings.HasSuffix(e.Message, "last error: two lines") {
		t.Errorf("message %q", e.Message)
	}
}

func TestBreakerRefusalNamesNoTimeThatIsTooEarly(t *testing.T) {
	b := supervision.NewBreaker(1, 1500*ms, nil)
	b.OnFailure(epoch, messages.ClassOther, nil, 0)
	if e := b.Refusal(epoch, "s"); !strings.Contains(e.Hint, "12:02:39 UTC (in 2 s)") {
		t.Errorf("hint %q", e.Hint)
	}
}

func TestBreakerReconfigureAndReset(t *testing.T) {
	b := opened(t)
	b.Reconfigure(1, time.Second)
	wantState(t, b, at(29*time.Second), supervision.BreakerOpen)
	b.OnDeath(epoch, messages.ClassStdioExit, 0)
	b.OnDeath(epoch, messages.ClassStdioExit, 0)
	b.Reset()
	wantDecision(t, b.Allow(epoch), supervision.Decision{Allowed: true})
	if b.LastError() != nil || b.StartDelay(epoch) != 0 {
		t.Error("something was kept")
	}
	b.OnFailure(epoch, messages.ClassOther, nil, 0)
	wantRefused(t, b, epoch, time.Second) // the settings were kept
}

// TestBreakerProperties: under any sequence of events there is never more than
// one probe, a refusal always ends, and calls are refused only after enough
// counted failures in a row.
func TestBreakerProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		threshold := rapid.IntRange(1, 4).Draw(t, "threshold")
		b := supervision.NewBreaker(threshold, 10*time.Second, nil)
		now := epoch
		probe, run := false, 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 6000).Draw(t, "ms")) * ms)
			state := b.State(now)
			switch rapid.SampledFrom([]string{"allow", "success", "failure", "auth", "cancel"}).Draw(t, "event") {
			case "allow":
				d := b.Allow(now)
				if !d.Allowed && b.Refusal(now, "s").RetryAfter <= 0 {
					t.Fatalf("refused without an end in state %s", state)
				}
				if d.Allowed && state == supervision.BreakerOpen {
					t.Fatal("a call passed an open breaker")
				}
				if d.Probe && probe {
					t.Fatal("two probes")
				}
				if !d.Allowed && run < threshold {
					t.Fatalf("refused after %d failures of %d", run, threshold)
				}
				if d.Allowed && !d.Probe && state != supervision.BreakerClosed {
					t.Fatalf("a plain call passed in state %s", state)
				}
				probe = probe || d.Probe
			case "success":
				b.OnSuccess(now)
				if state != supervision.BreakerOpen {
					probe, run = false, 0
				}
			case "failure":
				b.OnFailure(now, messages.ClassOther, errDown, 0)
				probe = false
				run++
			case "auth":
				b.OnFailure(now, messages.ClassAuth, errDown, 0)
				probe = false
			case "cancel":
				b.OnNeutral()
				probe = false
			}
			if b.Probing() != probe {
				t.Fatalf("probing is %v, want %v", b.Probing(), probe)
			}
			if run >= threshold && b.State(now) == supervision.BreakerClosed {
				t.Fatal("closed after the threshold")
			}
		}
		if !probe && !b.Allow(now.Add(time.Hour)).Allowed {
			t.Fatal("it never closes again")
		}
	})
}
