package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	cmap "github.com/orcaman/concurrent-map"
)

// How far the heap of a host may grow between two collections. Messages are
// short-lived: the more of them fit in between, the fewer collections there are,
// and at the runtime's default a busy host passes some 6 % fewer calls
// (docs/BENCHMARKS.md). A host of a few servers may have a heap of smallHeap, a
// larger one somewhat more than what lives: the same share for all would be
// hundreds of megabytes with the tools of thousands of servers.
const (
	smallHeap    = 40 << 20 // bytes
	leastGrowth  = 12 << 20
	leastPart    = 40 // percent of what lives
	mostPercent  = 400
	startPercent = 200
	// growingPercent is for a heap of which ever more lives, as while thousands of
	// servers are read: more collections would only find that.
	growingPercent = 70
)

// A host that has come to rest gives back what its last work took: it may be idle for
// days, and without work there is no collection.
const (
	restAfter = 10 * time.Second // without a collection
	restWorth = 4 << 20          // bytes that were taken since the last rest
)

// lightStart keeps down what every start costs, and is called before anything else.
func lightStart() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(startPercent) // half the collections
	}
	// protoactor has the actors in 1024 maps. Each would be 32 maps itself, which
	// takes milliseconds and megabytes, and nobody else in this program uses the
	// library. It must not change once there is a map.
	cmap.SHARD_COUNT = 1
}

// heapPercent is the percentage for so many bytes that live or are on stacks.
func heapPercent(live uint64) int {
	growth := max(smallHeap-min(live, smallHeap), leastGrowth, live*leastPart/100)
	return int(min(growth*100/max(live, 1), mostPercent))
}

// paceHeap keeps the percentage right until over is closed: it looks after each
// collection, so that a host that is busy with starts does not outgrow it, and an
// idle one does nothing, once it has given back what it does not need. GOGC in the
// environment overrides it.
func paceHeap(over <-chan struct{}) {
	if os.Getenv("GOGC") != "" {
		return
	}
	collected := make(chan struct{}, 1)
	hearCollections(collected, over)
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	percent, before := startPercent, uint64(0)
	var rests rests
	rest := time.NewTimer(restAfter)
	defer rest.Stop()
	for {
		select {
		case <-over:
			return
		case <-rest.C:
			if rests.due() {
				debug.FreeOSMemory()
			}
			continue
		case <-collected:
			rest.Reset(restAfter)
		}
		metrics.Read(live)
		bytes := uint64(0)
		for _, s := range live {
			if s.Value.Kind() == metrics.KindUint64 {
				bytes += s.Value.Uint64()
			}
		}
		// Each change stops the world for a moment, so small ones are left out.
		const tenth = 10
		p := heapPercent(bytes)
		if bytes > before+before/4 {
			p = max(p, growingPercent)
		}
		before = bytes
		if max(p, percent)-min(p, percent) > percent/tenth {
			percent = p
			debug.SetGCPercent(percent)
		}
	}
}

// rests knows what was allocated until the last rest.
type rests struct{ allocated uint64 }

// due says whether there may be something to give back: a rest is a collection, too.
func (r *rests) due() bool {
	all := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	if metrics.Read(all); all[0].Value.Kind() != metrics.KindUint64 {
		return false
	}
	now := all[0].Value.Uint64()
	if now-r.allocated < restWorth {
		return false
	}
	r.allocated = now
	return true
}

// hearCollections makes collected hear of collections until over is closed. The
// runtime runs a finalizer after the collection that found its object unused.
func hearCollections(collected chan<- struct{}, over <-chan struct{}) {
	type mark struct{ _ *mark } // nobody refers to one
	var hear func(*mark)
	hear = func(m *mark) {
		select {
		case <-over:
			return
		default:
		}
		select {
		case collected <- struct{}{}:
		default: // it is about to look
		}
		runtime.SetFinalizer(m, hear)
	}
	hear(&mark{})
}
