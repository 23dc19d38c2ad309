package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// A small heap may grow to smallHeap, and a large one by the larger of a fixed number
// of bytes and a part of what lives.
func TestHeapPercent(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		live uint64
		want int
	}{{0, mostPercent}, {1 * mb, mostPercent}, {10 * mb, 300}, {20 * mb, 100}, {24 * mb, 66}, {30 * mb, 40}, {100 * mb, 40}, {1000 * mb, 40}} {
		if got := heapPercent(c.live); got != c.want {
			t.Errorf("with %d MB: %d %%, want %d", c.live/mb, got, c.want)
		}
	}
}

// Every collection is heard of, until it is over.
func TestCollectionsAreHeard(t *testing.T) {
	collected, over := make(chan struct{}, 1), make(chan struct{})
	defer close(over)
	hearCollections(collected, over)
	for i := range 4 { // the first is said without one
		if i > 0 {
			runtime.GC()
		}
		select {
		case <-collected:
		case <-time.After(time.Minute):
			t.Fatalf("collection %d is not heard of", i)
		}
	}
}

// A rest is due where something was allocated since the last one, and not because of
// that one itself.
func TestRests(t *testing.T) {
	var r rests
	r.due()
	debug.FreeOSMemory()
	if r.due() {
		t.Error("a rest is the reason for the next one")
	}
	work := make([]byte, 2*restWorth)
	if !r.due() {
		t.Errorf("%d bytes are not worth a rest", len(work))
	}
}
