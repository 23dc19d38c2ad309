package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// told is a writer that tells of the first write.
type told struct {
	strings.Builder
	first chan struct{}
}

func (w *told) Write(p []byte) (int, error) {
	if w.Len() == 0 {
		close(w.first)
	}
	return w.Builder.Write(p)
}

func TestWhileWaiting(t *testing.T) {
	failure := errors.New("done")
	w := &told{first: make(chan struct{})}
	err := whileWaiting(w, true, "slow", time.Millisecond, func() error {
		select {
		case <-w.first:
		case <-time.After(time.Minute):
			t.Error("nothing was said")
		}
		return failure
	})
	if text := w.String(); !errors.Is(err, failure) || !strings.HasPrefix(text, "\rwaiting for \"slow\" to start") || !strings.HasSuffix(text, " \r") {
		t.Errorf("%q, %v", text, err)
	}
	for terminal, server := range map[bool]string{false: "slow", true: ""} {
		w := &told{first: make(chan struct{})}
		if err := whileWaiting(w, terminal, server, time.Hour, func() error { return nil }); err != nil || w.Len() > 0 {
			t.Errorf("%v, %q: %q, %v", terminal, server, w.String(), err)
		}
	}
}
