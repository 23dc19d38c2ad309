package worker

import (
	"slices"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/sandbox"
)

// Timers that are late together go off in any order; sleeps end in theirs.
func TestLateSleepsEndInOrder(t *testing.T) {
	now := time.Now()
	never := time.AfterFunc(time.Hour, func() {})
	defer never.Stop()
	sleep := func(after int) *pending {
		return &pending{timer: never, due: now.Add(time.Duration(after) * time.Millisecond)}
	}
	e := &engine{pending: map[uint64]*pending{1: sleep(40), 2: sleep(1), 3: sleep(20), 4: sleep(20), 5: sleep(90), 6: {ask: &sandbox.Ask{ID: 6}}}}
	reply := &sandbox.Reply{ID: 6}
	var got []uint64
	for _, ev := range e.inOrder([]event{{slept: 4}, {reply: reply}, {slept: 1}, {slept: 3}, {slept: 7}}) {
		if ev.reply != nil {
			got = append(got, ev.reply.ID)
		} else {
			got = append(got, ev.slept)
		}
	}
	if want := []uint64{2, 3, 4, 6, 1}; !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v", got, want)
	}
}
