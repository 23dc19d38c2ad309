package testkit

import (
	"testing"
	"time"
)

// pollEvery is how often a condition is looked at.
const pollEvery = 10 * time.Millisecond

// Eventually waits until cond returns nil and fails the test with cond's last
// error where that takes longer than within. The condition is looked at once
// more after the deadline, so that a machine that slept does not fail a test.
func Eventually(tb testing.TB, within time.Duration, cond func() error) {
	tb.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for cond() != nil {
		select {
		case <-tick.C:
		case <-deadline.C:
			if err := cond(); err != nil {
				tb.Fatalf("not within %s: %v", within, err)
			}
			return
		}
	}
}
