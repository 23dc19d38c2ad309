// Package wallclock puts times in order that were read from files, where the clock may
// have gone back since they were written.
package wallclock

import (
	"cmp"
	"time"
)

// Compare is negative where a was before b, positive where it was after b, and 0 where
// they are the same. A time after now was written before the clock went back, so it was
// before all that are not; the zero time is none, and before everything.
func Compare(a, b, now time.Time) int {
	return cmp.Or(cmp.Compare(trust(a, now), trust(b, now)), a.Compare(b))
}

// trust is the more the later a time of its kind was.
func trust(t, now time.Time) int {
	switch {
	case t.IsZero():
		return 0
	case t.After(now):
		return 1
	}
	return 2
}
