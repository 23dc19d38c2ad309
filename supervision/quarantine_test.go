package supervision_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// TestServerThatFlapsIsPutIntoQuarantine has a server die after each answer, so that
// it never fails twice in a row.
func TestServerThatFlapsIsPutIntoQuarantine(t *testing.T) {
	now := epoch
	b := supervision.NewBreaker(5, 30*time.Second, nil)
	b.Quarantine(3, 10*time.Minute)
	die := func() {
		b.OnSuccess(now)
		b.OnFailure(now, messages.ClassStdioExit, errors.New("it broke"), 0)
		b.OnDeath(now, messages.ClassStdioExit, time.Second)
		now = now.Add(time.Second)
	}
	cooldown := func() time.Duration {
		until, ok := b.OpenUntil(now)
		if !ok {
			return 0
		}
		return until.Sub(now).Round(10 * time.Second)
	}
	flap := func() {
		for range 3 {
			if b.Quarantined(now) {
				t.Fatal("too early")
			}
			die()
		}
	}
	for _, want := range []time.Duration{1 * time.Minute, 2 * time.Minute, 4 * time.Minute} {
		flap()
		if !b.Quarantined(now) || cooldown() != want {
			t.Fatalf("quarantine of %v, want %v", cooldown(), want)
		}
		if e := b.Refusal(now, "x"); !strings.Contains(e.Message, "in quarantine: it ended unexpectedly 3 times within 10 min") || !strings.Contains(e.Hint, "comes back by itself") {
			t.Errorf("said %q, %q", e.Message, e.Hint)
		}
		now = now.Add(want)
		if d := b.Allow(now); b.Quarantined(now) || !d.Allowed || !d.Probe {
			t.Fatalf("it does not come back: %+v", d)
		}
		b.OnSuccess(now)
	}
	// A window without ends the series; deaths that are further apart are none.
	now = now.Add(30 * time.Minute)
	flap()
	if cooldown() != time.Minute {
		t.Errorf("quarantine of %v after a quiet time", cooldown())
	}
	now = now.Add(time.Hour)
	for range 10 {
		b.Allow(now)
		die()
		now = now.Add(6 * time.Minute)
	}
	if b.Quarantined(now) {
		t.Error("deaths that are far apart count")
	}
	b.Quarantine(0, 0)
	for range 100 {
		b.Allow(now)
		die()
	}
	if b.Quarantined(now) {
		t.Error("it is switched off")
	}
}

// TestRefusedCredentialsBringNoQuarantine: no waiting cures them, and once they are
// mended the next call is to pass. Starting in a loop is put off all the same.
func TestRefusedCredentialsBringNoQuarantine(t *testing.T) {
	b := supervision.NewBreaker(5, 30*time.Second, nil)
	b.Quarantine(3, 10*time.Minute)
	for range 3 {
		b.OnFailure(epoch, messages.ClassAuth, errors.New("401 Unauthorized"), 0)
		b.OnDeath(epoch, messages.ClassAuth, 0)
	}
	if s := b.State(epoch); s != supervision.BreakerClosed {
		t.Errorf("the breaker is %v", s)
	}
	if b.StartDelay(epoch) == 0 {
		t.Error("the next start is not put off")
	}
}

func TestQuarantineIsBounded(t *testing.T) {
	now := epoch
	b := supervision.NewBreaker(5, time.Minute, nil)
	b.Quarantine(1, time.Hour)
	for range 200 {
		b.OnDeath(now, messages.ClassStdioExit, time.Second)
		until, ok := b.OpenUntil(now)
		if !ok || until.Sub(now) > supervision.MaxQuarantine || until.Sub(now) < 2*time.Minute {
			t.Fatalf("%v, %v", until.Sub(now), ok)
		}
		now = until
		b.Allow(now)
	}
}
