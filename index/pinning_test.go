package index

import (
	"fmt"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// When the differences of a server were recorded is forgotten with the server.
func TestServersThatAreGoneHaveNoPace(t *testing.T) {
	a := NewActor(&ActorDeps{View: &View{}})().(*indexActor)
	a.pins.atWork = map[string]*messages.Toolset{} // nothing goes to the disk
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
		a.pins.atWork = map[string]*messages.Toolset{} // nothing goes to the disk
		a.pins.timer = true                            // which would need a system
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
		delete(a.pins.late, "x")
		a.pins.atWork["x"], a.pins.kept["x"] = older, time.Now()
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
