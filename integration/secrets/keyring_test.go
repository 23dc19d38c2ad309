package secrets

import (
	"errors"
	"testing"
	"time"
)

// A keyring that does not answer is asked nothing else until it does, by nobody: it may
// be waiting for its user, whom one question is enough.
func TestKeyringThatHangs(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent") // nobody is asked in truth
	var hung outstanding
	release, called := make(chan struct{}), 0
	answer := func() (string, error) { called++; return "value", nil }
	if _, err := askWithin(time.Millisecond, &hung, func() (string, error) { <-release; return "late", nil }); !errors.Is(err, errHung) {
		t.Fatalf("it waits: %v", err)
	}
	if _, err := askWithin(time.Minute, &hung, answer); !errors.Is(err, errHung) || called != 0 {
		t.Errorf("it is asked again: %v", err)
	}
	returned := *hung.Load()
	close(release)
	select {
	case <-returned:
	case <-time.After(time.Minute):
		t.Fatal("the call does not return")
	}
	if got, err := askWithin(time.Minute, &hung, answer); err != nil || got != "value" {
		t.Errorf("once it has answered: %q, %v", got, err)
	}
}
