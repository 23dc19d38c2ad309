package main

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"
)

// What is in flight over HTTP has all of drainTimeoutMs, however long that is, although
// the signal has ended the context.
func TestEndOverHTTPHasTheWholeDrain(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	const drain = 5 * time.Minute
	began := time.Now()
	err := endHTTP(ctx, drain, func(ctx context.Context) error {
		if until, ok := ctx.Deadline(); !ok || until.Before(began.Add(drain)) {
			t.Errorf("it is over at %v, after %v", until, until.Sub(began))
		}
		return ctx.Err()
	})
	if err != nil {
		t.Error(err)
	}
}

// A session ends at the first signal, and also when the runtime gives up; whichever it
// was, the next signal does not wait for calls in flight.
func TestSignalsOfASession(t *testing.T) {
	for name, gaveUp := range map[string]bool{"two signals": false, "the runtime gave up": true} {
		t.Run(name, func(t *testing.T) {
			signals, damaged, over, returned := make(chan os.Signal), make(chan struct{}), make(chan struct{}), make(chan struct{})
			did := make(chan string, 8)
			go func() {
				defer close(returned)
				watch(signals, damaged, func() { did <- "stop" }, func(os.Signal) { did <- "hurry" }, over)
			}()
			if gaveUp {
				close(damaged)
			} else {
				signals <- os.Interrupt
			}
			got := []string{<-did}
			select {
			case signals <- os.Interrupt:
			case <-returned:
				t.Fatal("it hears no signal any more")
			}
			close(over)
			<-returned
			close(did)
			for what := range did {
				got = append(got, what)
			}
			if want := []string{"stop", "hurry", "stop"}; !slices.Equal(got, want) {
				t.Errorf("it did %q, want %q", got, want)
			}
		})
	}
}
