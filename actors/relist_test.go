package actors

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
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

// TestPauseBetweenListings: the pause grows while nothing really changes, less far while
// something does each time, and goes when the child has been quiet.
func TestPauseBetweenListings(t *testing.T) {
	var r relisting
	page := func(tools string) [][]byte { return [][]byte{[]byte(`{"tools":[` + tools + `],"at":"` + tools + `"}`)} }
	one, turned, other := page(`{"name":"a"},{"name":"b"}`), page(`{"name":"b"},{"name":"a"}`), page(`{"name":"c"}`)
	for i, step := range []struct {
		l    listing
		want time.Duration
	}{
		{listing{pages: one}, 0}, // the first of a connection
		{listing{pages: one, changed: true}, firstPause},
		{listing{pages: turned, changed: true}, 2 * firstPause}, // some servers have no order
		{listing{pages: one}, 2 * firstPause},                   // a caller wanted it
		{listing{pages: other, changed: true}, firstPause},
		{listing{pages: other, changed: true}, 2 * firstPause},
		{listing{pages: one, changed: true}, 2 * firstPause}, // the second that is another
		{listing{pages: other, changed: true}, 4 * firstPause},
	} {
		r.listed(&step.l)
		if r.pause != step.want {
			t.Errorf("step %d: pause %s, want %s", i, r.pause, step.want)
		}
	}
	for n := range 100 {
		r.listed(&listing{pages: page(strconv.Quote(strconv.Itoa(n))), changed: true})
	}
	if r.pause != movingPause {
		t.Errorf("pause %s, want %s at most where it is another each time", r.pause, movingPause)
	}
	for range 100 {
		r.listed(&listing{pages: other, changed: true})
	}
	if r.pause != lastPause {
		t.Errorf("pause %s, want %s at most", r.pause, lastPause)
	}
	r.wait(2*lastPause + 1)
	if r.listed(&listing{pages: one, changed: true}); r.pause != firstPause {
		t.Errorf("after a long time the pause is %s, want %s", r.pause, firstPause)
	}
}

// TestListingThatFails: one that the child announced is tried again, the later the more
// often it has failed; that of the start is not, nor one that nobody announced.
func TestListingThatFails(t *testing.T) {
	var r relisting
	start := &listing{announced: 1}
	second := &listing{announced: 2, changed: true, pages: [][]byte{[]byte(`{"tools":[{"name":"a"}]}`)}}
	if r.failed(start) {
		t.Error("that of the start is tried again")
	}
	r.listed(start)
	r.pause = 0
	for n := range 3 {
		if !r.failed(second) || r.pause != firstPause<<n {
			t.Errorf("it is not tried again, or after %s", r.pause)
		}
	}
	if r.listed(second); r.pause != firstPause { // it is another one than at the start
		t.Errorf("pause %s", r.pause)
	}
	if r.failed(second) {
		t.Error("one that nobody announced is tried again")
	}
	third := &listing{announced: 3, changed: true}
	for n := range 2 { // the index does not take it
		pause := r.pause
		if r.listed(third); !r.refused() || r.pause <= pause || r.read != 2 {
			t.Errorf("try %d: it is not tried again, or after %s; read %d", n, r.pause, r.read)
		}
	}
	if r.listed(third); r.read != 3 || r.failed(third) {
		t.Error("it is tried again once it was taken")
	}
}

// TestQuietBetweenChanges: a child that says again and again that its list has changed,
// where it has not, is listed once a minute at most, however far apart it says so.
func TestQuietBetweenChanges(t *testing.T) {
	same := listing{pages: [][]byte{[]byte(`{"tools":[{"name":"a"}]}`)}, changed: true}
	for _, every := range []time.Duration{firstPause / 2, 3 * firstPause, lastPause / 2} {
		var r relisting
		for range 100 {
			r.wait(every)
			r.listed(&same)
		}
		if wait := r.wait(every); wait != lastPause-every {
			t.Errorf("after %s it is not listed for %s more, want %s", every, wait, lastPause-every)
		}
		if wait := r.wait(2*lastPause + 1); wait > 0 {
			t.Errorf("after a long time it is not listed for %s more", wait)
		}
	}
}

// TestNoListingBeforeTheVerdict: the index has one listing of a connection at most, also
// where the list changes all the time and others ask for it; what changed meanwhile is
// listed then, also where no verdict ever comes.
func TestNoListingBeforeTheVerdict(t *testing.T) {
	b := newBench(t, &script{})
	lists := func(n int) {
		t.Helper()
		b.f.eventually(t, fmt.Sprint("listing ", n), func() bool { return len(b.f.lines("a", methodToolsList)) == n })
		b.heard("Listing", n)
	}
	quiet := func(m any) {
		t.Helper()
		if r := b.send(m); r.After != "IDLE" {
			t.Errorf("%T takes it to %s", m, r.After)
		}
	}
	changed := &messages.Frame{Instance: 1, Method: methodListChanged}
	b.send(&messages.Connect{})
	lists(1)
	quiet(changed)
	quiet(&messages.Relist{})
	b.heard("ConnectionIdle", 2) // its breaker takes it for a busy one
	b.send(&messages.Judged{Verdict: 1})
	lists(2)
	quiet(changed)
	quiet(&messages.Judged{Verdict: 1})
	quiet(&verdictDue{1})
	quiet(changed)
	if n := len(b.f.lines("a", methodToolsList)); n != 2 {
		t.Errorf("it was listed %d times", n)
	}
	b.send(&verdictDue{2})
	lists(3)
}

// TestAListThatTheIndexDoesNotTake is read again where it is the child's fault. What the
// index itself fails at is not: it would fail again, and bears that a few times only.
func TestAListThatTheIndexDoesNotTake(t *testing.T) {
	for _, fault := range []bool{false, true} {
		c := &connection{ready: true, relist: relisting{read: 3, before: 2, verdict: 1}, listing: &listing{}}
		c.onJudged(nil, &messages.Judged{Verdict: 1, Err: &messages.Error{}, Fault: fault})
		if c.relist.again || c.relist.read == 2 != fault {
			t.Errorf("the child's fault: %v: %+v", fault, c.relist)
		}
	}
}

// TestNoListingBeforeTheVerdictForCalls: calls that the gate holds bring about no
// listing before the verdict on the last one, and one at once then.
func TestNoListingBeforeTheVerdictForCalls(t *testing.T) {
	b := newBench(t, &script{})
	b.c.deps.holding = func() bool { return true }
	b.c.deps.accepted = func(string) messages.Accepted { return nil }
	calls := func(n int) {
		t.Helper()
		b.f.eventually(t, fmt.Sprint("call ", n), func() bool { return len(b.f.lines("a", methodToolsCall)) == n })
	}
	b.send(&messages.Connect{})
	b.heard("Listing", 1)
	for range 3 {
		call, _ := b.call("silent")
		for _, m := range []any{&messages.Frame{Instance: 1, Method: methodListChanged}, call} {
			if r := b.send(m); r.After != "IDLE" {
				t.Errorf("%T takes it to %s before the verdict", m, r.After)
			}
		}
	}
	b.send(&messages.Judged{Verdict: 1})
	b.heard("Listing", 2)
	b.send(&messages.Judged{Verdict: 2})
	calls(3)
}

// TestPauseAfterAVerdict: it is as long as the verdict took, and what does not come is
// waited for longer and longer, but once.
func TestPauseAfterAVerdict(t *testing.T) {
	var r relisting
	for _, want := range []time.Duration{firstPatience, 2 * firstPatience, 4 * firstPatience} {
		if got := r.nextPatience(); got != want {
			t.Errorf("patience %s, want %s", got, want)
		}
		r.patience = r.nextPatience()
	}
	r.patience = lastPatience
	if got := r.nextPatience(); got != lastPatience {
		t.Errorf("patience %s, want %s at most", got, lastPatience)
	}
	const took = time.Hour
	ended := time.Now().Add(-took)
	c := &connection{relist: relisting{pause: firstPause, ended: ended, verdict: 1}}
	c.onVerdictDue(nil, &verdictDue{1})
	if r := c.relist; r.verdict != 0 || r.patience != firstPatience || r.pause != firstPause || !r.ended.Equal(ended) {
		t.Errorf("without a verdict: %+v", r)
	}
	c = &connection{relist: relisting{pause: firstPause, ended: ended, verdict: 1, patience: firstPatience}}
	c.onJudged(nil, &messages.Judged{Verdict: 1})
	if r := c.relist; r.verdict != 0 || r.patience != 0 || r.pause < took || r.pause > took+soon || time.Since(r.ended) > soon {
		t.Errorf("after the verdict: %+v", r)
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

// TestOldListingIsReadAnewOnce: however many want to know meanwhile, one reading is
// for all of them.
func TestOldListingIsReadAnewOnce(t *testing.T) {
	r := newRigWith(t, nil, func(o *Options) { o.CatalogTTL = time.Nanosecond })
	release := make(chan struct{})
	var reading atomic.Int64
	r.add("a", &script{answers: func(_ *fakeLink, m rpcLine) bool {
		if m.Method == methodToolsList && reading.Add(1) == 2 {
			<-release
		}
		return false
	}}, nil)
	p := &contactPort{done: make(chan struct{})}
	r.e.Contact("a", false, p)
	r.heard(p)
	first := r.e.Catalog().Server("a").Toolset.Fetched
	for range 100 {
		r.e.Refresh("a")
	}
	r.e.Refresh("nobody")
	close(release)
	r.f.eventually(t, "the listing is a new one", func() bool { return r.e.Catalog().Server("a").Toolset.Fetched.After(first) })
	r.settled(1)
	if n := reading.Load(); n != 2 {
		t.Errorf("it was read %d times", n)
	}
}

// TestOldListingOfAServerThatFails: who looks at it does not start the server anew each
// time.
func TestOldListingOfAServerThatFails(t *testing.T) {
	r := newRigWith(t, nil, func(o *Options) { o.CatalogTTL = time.Nanosecond })
	var expired atomic.Bool
	r.add("a", &script{launch: func(int) error {
		if expired.Load() {
			return errors.New("401 Unauthorized: token expired")
		}
		return nil
	}}, func(s *messages.ServerSpec) { s.IdleTimeout = 20 * time.Millisecond })
	r.ok("a")
	expired.Store(true)
	r.settled(0) // it has been ended
	r.wantCode(r.do("a", "do", doArgs{}), messages.CodeConnection)
	entry, _ := r.e.dir.Lookup("a")
	if s := entry.Status(); s.Connected || s.LastError == nil {
		t.Fatalf("it does not fail: %+v", s)
	}
	r.f.eventually(t, "it may be started again", func() bool { return !entry.Status().RetryAt.After(time.Now()) })
	const long = time.Hour
	if !entry.MayRefresh(time.Now().Add(-2*long), -3*long) { // as if the last one had been then
		t.Fatal("the last refresh is not set back")
	}
	for range 10 {
		r.e.Refresh("a")
	}
	if !entry.MayRefresh(time.Now(), long) {
		t.Error("it is asked for its tools")
	}
}

// TestAnOldListingKeepsNoWait: a call to a server whose listing is old has it listed anew,
// for which no place is waited for once the call was given up.
func TestAnOldListingKeepsNoWait(t *testing.T) {
	r := newRigWith(t, places(1), func(o *Options) { o.CatalogTTL = time.Nanosecond })
	r.add("x", nil, nil)
	r.add("y", nil, nil)
	r.ok("x")
	busy := r.start("y", "do", doArgs{Do: "silent"})
	r.got("y", methodToolsCall, 1)
	given := r.start("x", "do", doArgs{})
	r.f.eventually(t, "x waits", func() bool { return r.stats().Waiting == 1 })
	r.e.Cancel(given.call, "enough")
	r.wantCode(r.wait(given), messages.CodeCancelled)
	r.f.eventually(t, "nobody waits", func() bool { return r.stats().Waiting == 0 })
	r.e.Cancel(busy.call, "enough")
	r.wantCode(r.wait(busy), messages.CodeCancelled)
}

// TestTheLastWhoIsTurnedAway was waiting for the tools alone: nobody waits for the start.
func TestTheLastWhoIsTurnedAway(t *testing.T) {
	r := newRig(t, func(s *supervision.PoolSettings) { s.Pool.Size, s.Pool.AcquireTimeout = 1, time.Hour })
	r.add("x", nil, nil)
	r.add("y", nil, nil)
	r.ok("x")
	busy := r.start("y", "do", doArgs{Do: "silent"})
	r.got("y", methodToolsCall, 1)
	waiting := &contactPort{done: make(chan struct{})}
	r.e.Contact("x", true, waiting)
	given := r.start("x", "do", doArgs{})
	r.f.eventually(t, "x waits", func() bool { return r.stats().Waiting == 1 })
	r.e.Cancel(given.call, "enough")
	r.wantCode(r.wait(given), messages.CodeCancelled)
	x, _ := r.e.dir.Lookup("x")
	r.e.sys.Send(x.Breaker, &messages.TurnAway{Ticket: 3, Contact: true, Before: time.Now(), Err: &messages.Error{Code: messages.CodePoolSaturated}}) // the third start of all
	r.heard(waiting)
	r.f.eventually(t, "nobody waits", func() bool { return r.stats().Waiting == 0 })
	r.e.Cancel(busy.call, "enough")
	r.wantCode(r.wait(busy), messages.CodeCancelled)
}
