package wallclock

import (
	"slices"
	"testing"
	"time"
)

func TestCompare(t *testing.T) {
	now := time.Now()
	sorted := []time.Time{ // the first first
		{}, now.Add(1), now.AddDate(1, 0, 0), now.AddDate(-1, 0, 0), now.Add(-1), now,
	}
	for i, a := range sorted {
		for k, b := range sorted {
			if got, want := Compare(a, b, now), min(max(i-k, -1), 1); got != want {
				t.Errorf("%v and %v: %d, want %d", a, b, got, want)
			}
		}
	}
	mixed := slices.Clone(sorted)
	slices.Reverse(mixed)
	slices.SortFunc(mixed, func(a, b time.Time) int { return Compare(a, b, now) })
	if !slices.EqualFunc(mixed, sorted, time.Time.Equal) {
		t.Errorf("%v, want %v", mixed, sorted)
	}
}
