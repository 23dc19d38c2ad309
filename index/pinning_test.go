package index

import (
	"fmt"
	"testing"

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
	}
	known("stays")
	if i := len(a.pins.kept); i != 0 {
		t.Errorf("%d servers that are gone have a pace", i)
	}
	a.record(nil, &messages.Toolset{Server: "stays"})
	known("stays", "other")
	if a.pins.kept["stays"].IsZero() {
		t.Error("a server that stays has none")
	}
}
