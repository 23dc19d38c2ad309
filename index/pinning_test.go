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
	a.pins.working = true // nothing goes to the disk
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
