package index

import (
	"slices"
	"testing"
)

// A child that lists what it listed before, as after each start, does not make
// anybody work out the index again. One that lists something else does, and what it
// lists no more is not offered.
func TestUnchangedListingsKeepTheIndex(t *testing.T) {
	list := func(descriptions ...string) (page string) {
		page = `{"tools":[`
		for i, d := range descriptions {
			if i > 0 {
				page += ","
			}
			page += definition("tool_"+d, "Turns the "+d+".", `{"type":"object"}`)
		}
		return page + `]}`
	}
	cat := (*Catalog)(nil).With(parsedSet(t, "x", list("wheel", "screw")), Labels{}).With(parsedSet(t, "y", list("knob")), Labels{})
	find := func(query string) (names []string) {
		for _, m := range (Hybrid{}).Search(cat, Query{Text: query}) {
			names = append(names, m.Entry.Tool.Name)
		}
		return names
	}
	if got := find("turn the wheel"); !slices.Contains(got, "tool_wheel") {
		t.Fatalf("found %v", got)
	}
	index := cat.space.index
	cat = cat.With(parsedSet(t, "x", list("wheel", "screw")), Labels{})
	if got := find("turn the wheel"); !slices.Contains(got, "tool_wheel") || cat.space.index != index {
		t.Errorf("found %v; the index is the same: %v", got, cat.space.index == index)
	}
	cat = cat.With(parsedSet(t, "x", list("wheel", "screw")), Labels{Disabled: true})
	if got := find("turn the wheel"); slices.Contains(got, "tool_wheel") || !slices.Contains(got, "tool_knob") || cat.space.index != index {
		t.Errorf("of a disabled server: found %v; the index is the same: %v", got, cat.space.index == index)
	}
	cat = cat.With(parsedSet(t, "x", list("screw", "valve")), Labels{})
	if got := find("turn the wheel"); slices.Contains(got, "tool_wheel") || !slices.Contains(find("turn the valve"), "tool_valve") {
		t.Errorf("after another listing: found %v", got)
	}
	cat = cat.Without("x")
	if got := find("turn the screw"); slices.Contains(got, "tool_screw") {
		t.Errorf("of a server that is gone: found %v", got)
	}
}
