package testkit

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// leavesWithin is how long a goroutine that is on its way out may take: on a loaded
// machine, a second was not enough.
const leavesWithin = 30 * time.Second

// Leaks is what goleak still finds when goroutines that end have had their time; nil:
// nothing.
func Leaks(opts ...goleak.Option) error {
	for deadline := time.Now().Add(leavesWithin); ; { // goleak itself waits between its looks
		if err := goleak.Find(opts...); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// NoLeaks fails the test where [Leaks] has something.
func NoLeaks(tb testing.TB, opts ...goleak.Option) {
	tb.Helper()
	if err := Leaks(opts...); err != nil {
		tb.Error(err)
	}
}
