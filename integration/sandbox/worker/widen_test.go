package worker

import (
	"runtime"
	"testing"
)

// A script that computes gets the second processor; one that waits, or that the
// watch finds in another turn each time, does not.
func TestOnlyAScriptThatComputesGetsMoreProcessors(t *testing.T) {
	wide := min(runtime.NumCPU(), maxProcs)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(fewProcs))
	looks := func(step, from uint64) int {
		runtime.GOMAXPROCS(fewProcs)
		w := &watch{e: &engine{}}
		w.e.turn.Store(from)
		for range 5 * longLooks {
			w.widen()
			w.e.turn.Add(step)
		}
		return runtime.GOMAXPROCS(0)
	}
	for _, tt := range []struct {
		name       string
		step, from uint64
		want       int
	}{
		{"it computes from the start", 0, 0, wide}, {"it computes after some calls", 0, 8, wide},
		{"it waits", 0, 1, fewProcs}, {"it makes calls", 2, 0, fewProcs},
	} {
		if got := looks(tt.step, tt.from); got != tt.want {
			t.Errorf("%s: %d processors, want %d", tt.name, got, tt.want)
		}
	}
}
