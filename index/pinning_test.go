package index

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// When the differences of a server were recorded is forgotten with the server.
func TestServersThatAreGoneHaveNoPace(t *testing.T) {
	a := NewActor(&ActorDeps{View: &View{}})().(*indexActor)
	a.pins.atWork = &keeping{} // nothing goes to the disk
	known := func(names ...string) {
		m := &Known{}
		for _, name := range names {
			m.Specs = append(m.Specs, &messages.ServerSpec{Name: name, Hash: "h"})
		}
		a.onKnown(nil, m)
	}
	for i := range 20 {
		name := fmt.Sprintf("renamed%d", i)
		known("stays", name)
		a.record(nil, &messages.Toolset{Server: name})
		a.onPinsChanged(nil, &PinsChanged{Servers: []string{name, "unknown"}})
	}
	known("stays")
	if i, j := len(a.pins.kept), len(a.pins.changed); i+j != 0 {
		t.Errorf("%d servers that are gone have a pace, %d were changed", i, j)
	}
	a.record(nil, &messages.Toolset{Server: "stays"})
	known("stays", "other")
	if a.pins.kept["stays"].IsZero() {
		t.Error("a server that stays has none")
	}
}

// What was begun to be read before others changed it does not count any more, however
// late it comes.
func TestOlderReadingsDoNotCount(t *testing.T) {
	a := NewActor(&ActorDeps{View: &View{}})().(*indexActor)
	a.pins.mode = messages.PinsWarn
	a.onKnown(nil, &Known{Specs: []*messages.ServerSpec{{Name: "x", Hash: "h"}}})
	a.pins.reads = 2
	a.onPinsChanged(nil, &PinsChanged{Servers: []string{"x"}})
	older := map[string]messages.Accepted{"x": nil}
	for read := range a.pins.reads + 1 {
		a.onPinsLoaded(nil, &pinsLoaded{older, read})
		a.onKept(nil, &kept{accepted: older, read: read})
	}
	if a.pins.outdated("x", 3) || a.pins.outdated("other", 1) {
		t.Error("what is read afterwards does not count, or what nobody changed")
	}
}

type unwritten struct{}

func (unwritten) Pinned() bool   { return true }
func (unwritten) Approvals() int { return 0 }
func (unwritten) Review(*messages.Toolset, messages.PinMode) *messages.Review {
	return &messages.Review{Unrecorded: true, Unwritten: true}
}

// What could not be written is tried again without a further listing.
func TestPinsThatCouldNotBeWrittenAreTriedAgain(t *testing.T) {
	a := NewActor(&ActorDeps{View: &View{}})().(*indexActor)
	a.pins.mode = messages.PinsHold
	a.onKnown(nil, &Known{Specs: []*messages.ServerSpec{{Name: "x", Hash: "h"}}})
	ts := toolset(t, "x", definition("a", "One.", `{"type":"object"}`))
	a.deps.View.store(a.deps.View.Load().With(ts, Labels{}))
	a.pins.timer = true // which would need a system
	a.pins.kept["x"] = time.Now()
	a.accept(nil, "x", unwritten{})
	if a.pins.late["x"] != ts {
		t.Errorf("later %v is recorded", a.pins.late)
	}
}

// What is given up is told by its configuration: another server of its name stays.
func TestDiscardLeavesAnotherServerOfThatName(t *testing.T) {
	a := NewActor(&ActorDeps{View: &View{}})().(*indexActor)
	a.onKnown(nil, &Known{Specs: []*messages.ServerSpec{{Name: "x", Hash: "h"}}})
	ts := &messages.Toolset{Server: "x"}
	a.saves["x"], a.pins.keeps["x"] = ts, ts
	done := make(chan struct{})
	a.onDiscard(nil, &Discard{Server: "x", Hash: "other", Pins: true, Done: done})
	<-done
	if a.specs["x"] == nil || a.saves["x"] != ts || a.pins.keeps["x"] != ts {
		t.Error("it is gone")
	}
}

// A listing that waits to be tried again, or for its time, is never written after a
// newer one of its server.
func TestOlderListingsAreNotRecordedAfterNewerOnes(t *testing.T) {
	older := toolset(t, "x", definition("a", "One.", `{"type":"object"}`))
	newer := toolset(t, "x", definition("a", "Two.", `{"type":"object"}`))
	start := func(mode messages.PinMode, accepted messages.Accepted) *indexActor {
		a := NewActor(&ActorDeps{View: &View{}, Keeper: &noKeeper{}, Notify: func(string, any) {}})().(*indexActor)
		a.pins.mode = mode
		a.pins.atWork = &keeping{} // nothing goes to the disk
		a.pins.timer = true        // which would need a system
		a.onKnown(nil, &Known{Specs: []*messages.ServerSpec{{Name: "x", Err: &messages.Error{}}}})
		if accepted != nil {
			a.setAccepted("x", accepted)
		}
		a.pins.late["x"] = older
		return a
	}
	last := func(t *testing.T, a *indexActor) {
		t.Helper()
		got := a.pins.keeps["x"]
		if late := a.pins.late["x"]; late != nil {
			got = late
		}
		if got != newer {
			t.Errorf("recorded last is %v, later %v, of %p", a.pins.keeps, a.pins.late, newer)
		}
	}
	t.Run("one that could not be written", func(t *testing.T) {
		a := start(messages.PinsHold, unwritten{})
		a.judge(nil, &judging{ts: newer})
		last(t, a)
	})
	for _, mode := range []messages.PinMode{messages.PinsWarn, messages.PinsHold} {
		t.Run("nothing accepted, "+string(mode), func(t *testing.T) {
			a := start(mode, nil)
			a.judge(nil, &judging{ts: newer})
			last(t, a)
		})
	}
	t.Run("the server went back", func(t *testing.T) {
		a := start(messages.PinsHold, asAccepted{})
		a.pins.kept["x"] = time.Now()
		a.judge(nil, &judging{ts: newer})
		last(t, a)
	})
	t.Run("the server went back while it was recorded", func(t *testing.T) {
		a := start(messages.PinsHold, asAccepted{})
		a.pins.atWork.sets, a.pins.late = a.pins.late, map[string]*messages.Toolset{}
		a.pins.kept["x"] = time.Now()
		a.judge(nil, &judging{ts: newer})
		last(t, a)
	})
}

// noKeeper is one that nobody asks.
type noKeeper struct{ Keeper }

type asAccepted struct{}

func (asAccepted) Pinned() bool   { return true }
func (asAccepted) Approvals() int { return 0 }
func (asAccepted) Review(*messages.Toolset, messages.PinMode) *messages.Review {
	return &messages.Review{}
}

// What nobody waits for is recorded after what somebody waits for, and holds it up no
// longer than one listing takes that cannot be written.
func TestLateListingsHoldNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewActor(&ActorDeps{View: &View{}})().(*indexActor)
		a.pins.mode = messages.PinsHold
		m := &Known{}
		for i := range 20 {
			name := fmt.Sprintf("late%d", i)
			m.Specs = append(m.Specs, &messages.ServerSpec{Name: name, Err: &messages.Error{}})
			a.pins.late[name] = &messages.Toolset{Server: name}
		}
		a.onKnown(nil, m)
		a.pins.atWork = &keeping{}
		a.onKeepLate(nil)
		first := &messages.Toolset{Server: "first"}
		a.pins.next(first)
		a.pins.atWork, a.pins.timer = nil, true // a timer would need a system
		if work := a.pins.begin(); work.late || len(work.sets) != 1 || work.sets["first"] != first {
			t.Fatalf("%d listings are recorded with one that somebody waits for", len(work.sets))
		}
		a.pins.atWork = nil
		work, began := a.pins.begin(), time.Now()
		accepted := work.record(&lockedKeeper{}, a.pins.mode)
		if took := time.Since(began); took != lockTakes {
			t.Errorf("it took %v", took)
		}
		if len(accepted) != 1 || len(work.left) != 19 {
			t.Errorf("%d are accepted, %d left", len(accepted), len(work.left))
		}
		newer, gone := &messages.Toolset{}, ""
		for server := range work.left {
			if gone == "" {
				gone = server
				delete(a.specs, server)
				continue
			}
			newer.Server = server
		}
		a.pins.late[newer.Server] = newer
		a.onKept(nil, &kept{left: work.left, read: 1})
		if len(a.pins.late) != 18 || a.pins.late[newer.Server] != newer || a.pins.late[gone] != nil {
			t.Errorf("%d are tried again, of them %v", len(a.pins.late), a.pins.late[newer.Server])
		}
	})
}

// Where nothing is slow, one that cannot be written keeps no other from it.
func TestLateListingsThatFailAtOnceEndNothing(t *testing.T) {
	work := &keeping{late: true, sets: map[string]*messages.Toolset{"a": {}, "b": {}, "c": {}}}
	if accepted := work.record(failingKeeper{}, messages.PinsHold); len(accepted) != 3 || len(work.left) != 0 {
		t.Errorf("%d are accepted, %d left", len(accepted), len(work.left))
	}
}

type failingKeeper struct{ Keeper }

func (failingKeeper) Keep(*messages.Toolset) messages.Accepted { return unwritten{} }

// lockTakes is how long a listing takes where another program has the lock.
const lockTakes = 10 * time.Second

// lockedKeeper writes nothing, since another program has the lock.
type lockedKeeper struct{ Keeper }

func (*lockedKeeper) Keep(*messages.Toolset) messages.Accepted {
	<-time.After(lockTakes)
	return unwritten{}
}

// listKeeper writes down what it is given, and says that it could not write it.
type listKeeper struct {
	Keeper
	got []*messages.Toolset
}

func (k *listKeeper) Keep(ts *messages.Toolset) messages.Accepted {
	k.got = append(k.got, ts)
	return unwritten{}
}

// At the end all that waits is recorded, older before newer, and what a worker leaves
// behind that is still under way.
func TestTheEndRecordsWhatAWorkerLeft(t *testing.T) {
	var want []*messages.Toolset
	set := func(server string) map[string]*messages.Toolset {
		ts := &messages.Toolset{Server: server}
		if server != "gone" {
			want = append(want, ts)
		}
		return map[string]*messages.Toolset{server: ts}
	}
	k := &listKeeper{}
	a := NewActor(&ActorDeps{View: &View{}, Keeper: k, Warn: func(string, ...any) {}})().(*indexActor)
	a.pins.mode = messages.PinsHold
	a.specs["x"] = &messages.ServerSpec{Name: "x"}
	left := set("x")
	left["gone"] = set("gone")["gone"]
	a.pins.keeps, a.pins.due, a.pins.late = set("x"), set("x"), set("x")
	over := make(chan struct{})
	work := &keeping{}
	a.pins.atWork, a.pins.atDisk = work, over
	sys := kernel.New(slog.New(slog.DiscardHandler))
	a.leavePins(sys)
	work.left = left
	close(over)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := sys.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(k.got, want) {
		t.Errorf("recorded: %v, not %v", k.got, want)
	}
}

// contextActor calls functions with its context.
type contextActor struct{}

func (contextActor) Receive(ctx *kernel.Context, msg any) {
	if f, ok := msg.(func(*kernel.Context)); ok {
		f(ctx)
	}
}

// Nothing waits any more of a server that was discarded.
func TestDiscardLeavesNothingWaiting(t *testing.T) {
	a := NewActor(&ActorDeps{View: &View{}})().(*indexActor)
	a.onKnown(nil, &Known{Specs: []*messages.ServerSpec{{Name: "x", Hash: "h"}}})
	ts := &messages.Toolset{Server: "x"}
	p := &a.pins
	p.keeps["x"], p.due["x"], p.late["x"], p.unsettled["x"] = ts, ts, ts, []*judging{{ts: ts}}
	sys := kernel.New(slog.New(slog.DiscardHandler))
	pid, _, err := sys.SpawnRoot("x", func() kernel.Actor { return contextActor{} }, func(why any) { t.Errorf("it gave up: %v", why) })
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	sys.Send(pid, func(ctx *kernel.Context) { a.onDiscard(ctx, &Discard{Server: "x", Hash: "h", Done: done}) })
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("it was not discarded in time")
	}
	sys.Stop(pid)
	if p.waits("x") || len(p.unsettled) > 0 {
		t.Errorf("there wait %v %v %v %v", p.keeps, p.due, p.late, p.unsettled)
	}
}
