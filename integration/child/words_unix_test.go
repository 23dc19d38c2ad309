//go:build unix

package child

import (
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// The report of an exit waits for words that are there and that nobody came to read, and
// not for who only holds the pipe, or writes on.
func TestLastWordsAreAwaited(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(r.Close(), w.Close()) }()
	var taken atomic.Bool
	const last = 4
	done, looks := make(chan struct{}), 0
	look := func() bool { looks++; return unread(r, &taken) }

	awaitRead(done, look, time.Minute)
	if looks != 1 {
		t.Errorf("an empty pipe was looked at %d times", looks)
	}
	if _, err := w.WriteString("no luck"); err != nil {
		t.Fatal(err)
	}
	looks = 0
	awaitRead(done, look, time.Millisecond)
	if looks == 0 || !unread(r, &taken) {
		t.Errorf("%d looks at words that nobody reads", looks)
	}
	looks = 0
	awaitRead(done, func() bool {
		looks++
		if looks == last {
			if _, err := r.Read(make([]byte, 100)); err != nil {
				t.Error(err)
			}
			close(done)
		}
		return looks < last || unread(r, &taken)
	}, time.Minute)
	if looks != last || unread(r, &taken) {
		t.Errorf("%d looks, unread: %v", looks, unread(r, &taken))
	}
	taken.Store(true)
	if !unread(r, &taken) {
		t.Error("words that are on their way to the log are not awaited")
	}
	taken.Store(false)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if !unread(r, &taken) {
		t.Error("the end, behind which a line without one is kept, is not awaited")
	}
}
