package scrub

import "testing"

// TestWalkersLetGo: a walker that is kept for later keeps nothing of what it has read.
func TestWalkersLetGo(t *testing.T) {
	s := New(nil)
	s.Result([]byte(`{"content":[{"type":"text","text":"x","more":{"deep":[{"key":1}]}}]}`))
	w := walkers.Get().(*walker)
	defer walkers.Put(w)
	for i, l := range w.stack[:cap(w.stack)] {
		if l.key != nil {
			t.Errorf("level %d still has the name %q", i, l.key)
		}
	}
}
