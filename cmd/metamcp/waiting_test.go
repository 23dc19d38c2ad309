package main

import (
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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
	err := whileWaiting(w, true, waitingFor("slow"), time.Millisecond, func(io.Writer) error {
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
		if err := whileWaiting(w, terminal, waitingFor(server), time.Hour, func(io.Writer) error { return nil }); err != nil || w.Len() > 0 {
			t.Errorf("%v, %q: %q, %v", terminal, server, w.String(), err)
		}
	}
}

// A log gets one line, and that late; what the command itself says stays as it is.
func TestALogIsToldOnceOfAWait(t *testing.T) {
	for waits, want := range map[time.Duration]string{5 * time.Second: "", 3 * time.Minute: "metamcp: waiting for \"slow\" to start and list tools\n"} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			err := whileWaiting(&log, false, waitingFor("slow"), sayWaiting, func(stderr io.Writer) error {
				<-time.After(waits)
				_, err := io.WriteString(stderr, "\x1b[2J\n")
				return err
			})
			if err != nil || log.String() != want+"\x1b[2J\n" {
				t.Errorf("after %v it says %q, %v", waits, log.String(), err)
			}
		})
	}
}

// What is waited for changes, and what the command itself says has a line of its own.
func TestAWaitingLineMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var terminal strings.Builder
		waited := ""
		var mu sync.Mutex // of both
		what := func() string {
			mu.Lock()
			defer mu.Unlock()
			return waited
		}
		in := func(d time.Duration, next string) {
			<-time.After(d)
			mu.Lock()
			defer mu.Unlock()
			waited = next
		}
		err := whileWaiting(&terminal, true, what, time.Second, func(stderr io.Writer) error {
			const between = 100 * time.Millisecond // two looks, so that it is clear which sees it
			in(time.Minute+between, `"one"`)
			in(3*time.Second, "")
			in(time.Minute+between, "servers")
			<-time.After(1500 * time.Millisecond)
			if _, err := io.WriteString(stderr, "log\x1b[2J\n"); err != nil {
				return err
			}
			<-time.After(time.Second)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var screen []string // what stood in the line, one after the other
		for _, text := range strings.Split(terminal.String(), "\r") {
			if text = strings.TrimSpace(text); text != "" {
				screen = append(screen, text)
			}
		}
		const one, servers = `waiting for "one" to start and list tools, `, "waiting for servers to start and list tools, "
		if want := []string{one + "1s", one + "2s", servers + "1s", "log␛[2J", servers + "1s", servers + "2s"}; !slices.Equal(screen, want) {
			t.Errorf("it said %q, want %q", screen, want)
		}
	})
}
