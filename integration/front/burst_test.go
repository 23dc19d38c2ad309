package front

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// heldBack notes that it may go on.
type heldBack struct{ uncorked chan struct{} }

func (h heldBack) Uncork() { h.uncorked <- struct{}{} }

// TestLinesReadTogetherAreABurst: many calls of one write are one, up to a bound, and it
// is over behind the last of them. Few are none.
func TestLinesReadTogetherAreABurst(t *testing.T) {
	const lines = maxBurst + minBurst
	held := heldBack{make(chan struct{}, lines)}
	var bursts []*messages.Burst // of the reading goroutine, until all is answered
	var holds atomic.Int64
	s := start(t, Options{Engine: &fakeEngine{call: func(r Request) {
		bursts = append(bursts, r.Burst)
		if r.Burst.Hold(held) {
			holds.Add(1)
		}
		r.Reply.Answer(&messages.Answer{Call: r.Call, Result: echo(r)})
	}}})
	send := func(lines int) {
		var all []string
		for id := range lines {
			all = append(all, callLine(id, `{"server":"s","tool":"t"}`))
		}
		s.send(all...)
		for range lines {
			s.recv()
		}
	}
	send(minBurst - 1)
	send(lines)
	s.endsClean()
	few, bursts := bursts[:minBurst-1], bursts[minBurst-1:]
	if slices.ContainsFunc(few, func(b *messages.Burst) bool { return b != nil }) || len(bursts) != lines {
		t.Fatalf("bursts %v of %d lines, and %d of more", few, minBurst-1, len(bursts))
	}
	for i, b := range bursts {
		if b == nil || b != bursts[i/maxBurst*maxBurst] || b.Hold(held) {
			t.Fatalf("call %d is in no burst, in another than those before it, or in one that goes on", i)
		}
	}
	if bursts[0] == bursts[maxBurst] || holds.Load() != lines || len(held.uncorked) != lines {
		t.Errorf("%d lines are one burst, or of %d that hold something back %d go on", lines, holds.Load(), len(held.uncorked))
	}
}

// TestBurstIsOverBeforeAClientIsWaitedFor: a client that is full is read no further, and
// what it asked for before goes out.
func TestBurstIsOverBeforeAClientIsWaitedFor(t *testing.T) {
	held := heldBack{make(chan struct{}, 2)}
	// Of the first answer a part is in the pipe, so that the second fills the client.
	large := json.RawMessage(`{"content":[{"type":"text","text":"` + strings.Repeat("x", fullAt) + `"}]}`)
	s := start(t, Options{Engine: &fakeEngine{call: func(r Request) {
		if r.Tool == "large" {
			if !r.Burst.Hold(held) {
				t.Error("the first of many lines are in no burst")
			}
			r.Reply.Answer(&messages.Answer{Call: r.Call, Result: large})
			return
		}
		r.Reply.Answer(&messages.Answer{Call: r.Call, Result: echo(r)})
	}}})
	lines := []string{callLine(1, `{"server":"s","tool":"large"}`), callLine(2, `{"server":"s","tool":"large"}`)}
	for id := 3; id <= minBurst; id++ {
		lines = append(lines, callLine(id, `{"server":"s","tool":"t"}`))
	}
	s.send(lines...)
	select {
	case <-held.uncorked:
	case <-time.After(patience):
		t.Fatal("what was held back waits for a client that does not read")
	}
	for id := 1; id <= minBurst; id++ {
		if got := s.recv(); !strings.Contains(got[:100], fmt.Sprintf(`"id":%d,`, id)) {
			t.Errorf("got %.100s, want the answer to %d", got, id)
		}
	}
	s.endsClean()
}
