package front

import "testing"

// A state is used once, and one that is too old or was never given out not at all.
func TestSpentStates(t *testing.T) {
	var s spent
	if s.use(0) {
		t.Error("one that was never given out")
	}
	first, second := s.issue(), s.issue()
	for _, n := range []uint64{second, first} {
		if !s.use(n) || s.use(n) {
			t.Errorf("%d is not used exactly once", n)
		}
	}
	kept := s.issue()
	for range keptStates - 1 {
		s.issue()
	}
	if !s.use(kept) || s.use(first) {
		t.Error("the oldest that is kept, or one that is used")
	}
	forgotten := kept + 1
	s.issue()
	s.issue()
	if s.use(forgotten) {
		t.Error("one that is too old")
	}
}
