package messages

import (
	"sync"
	"sync/atomic"
	"testing"
)

// counted counts how often it is uncorked.
type counted struct{ times atomic.Int64 }

func (c *counted) Uncork() { c.times.Add(1) }

func TestBurst(t *testing.T) {
	var none *Burst
	if none.Hold(new(counted)) {
		t.Error("no burst holds something back")
	}
	none.End()

	b, a, c := new(Burst), new(counted), new(counted)
	if !b.Hold(a) || !b.Hold(c) || a.times.Load() != 0 {
		t.Fatal("a burst that goes on does not hold back")
	}
	b.End()
	b.End()
	if a.times.Load() != 1 || c.times.Load() != 1 {
		t.Errorf("uncorked %d and %d times, want once each", a.times.Load(), c.times.Load())
	}
	if b.Hold(a) {
		t.Error("a burst that is over holds back")
	}
}

// Whoever is told that the burst holds back is uncorked, however close its end is.
func TestBurstEndsForAll(t *testing.T) {
	for range 200 {
		b, c := new(Burst), new(counted)
		var held atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if b.Hold(c) {
					held.Add(1)
				}
			})
		}
		all.Go(b.End)
		all.Wait()
		if c.times.Load() != held.Load() {
			t.Fatalf("%d held something back, %d were uncorked", held.Load(), c.times.Load())
		}
	}
}
