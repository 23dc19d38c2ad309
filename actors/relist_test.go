package actors

import (
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// TestAListThatAlwaysChanges: a child that says so whenever it is asked for its
// list is idle between two listings, and gives its place up to others.
func TestAListThatAlwaysChanges(t *testing.T) {
	r := newRig(t, func(s *supervision.PoolSettings) { s.Pool.Size = 1 })
	r.add("a", &script{restless: true}, nil)
	r.add("b", nil, nil)
	r.ok("a")
	r.got("a", methodToolsList, 2) // the change is followed at once
	r.settled(1)
	r.ok("b")
	if st := r.status("a"); st.Connected {
		t.Errorf("a keeps its place: %+v", st)
	}
}

// TestPauseBetweenListings: the pause grows while nothing really changes and
// goes when the child has been quiet.
func TestPauseBetweenListings(t *testing.T) {
	var r relisting
	one, other := [][]byte{[]byte("one")}, [][]byte{[]byte("other")}
	for i, step := range []struct {
		l    listing
		want time.Duration
	}{
		{listing{pages: one}, 0}, // the first of a connection
		{listing{pages: one, changed: true}, firstPause},
		{listing{pages: one, changed: true}, 2 * firstPause},
		{listing{pages: one}, 2 * firstPause}, // a caller wanted it
		{listing{pages: other, changed: true}, firstPause},
		{listing{pages: other, changed: true}, 2 * firstPause},
	} {
		r.listed(&step.l)
		if r.pause != step.want {
			t.Errorf("step %d: pause %s, want %s", i, r.pause, step.want)
		}
	}
	for range 100 {
		r.listed(&listing{pages: other, changed: true})
	}
	if r.pause != lastPause {
		t.Errorf("pause %s, want %s at most", r.pause, lastPause)
	}
}

// TestAChangeDuringThePauseIsNotLost: it is listed once the pause is over.
func TestAChangeDuringThePauseIsNotLost(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.ok("a")
	for n := 2; n < 4; n++ { // the second of these falls into a pause
		r.wantResult(r.do("a", "do", doArgs{Do: "changed"}))
		r.got("a", methodToolsList, n)
	}
	r.wantCode(r.do("a", "nothere", doArgs{}), messages.CodeToolNotFound)
}
