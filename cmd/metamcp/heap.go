package main

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	cmap "github.com/orcaman/concurrent-map"
)

// How far the heap of a host may grow between two collections, in percent of
// what lives. Messages are short-lived: while little lives, at the default a
// busy host passes some 6 % fewer calls (docs/BENCHMARKS.md). With the tools of
// thousands of servers in memory the same share would be hundreds of megabytes.
const (
	smallHeapPercent = 200
	largeHeapPercent = 50
	largeHeap        = 48 << 20
	heapLook         = 2 * time.Second
)

// lightStart keeps down what every start costs, and is called before anything else.
func lightStart() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(smallHeapPercent) // half the collections
	}
	// protoactor has the actors in 1024 maps. Each would be 32 maps itself, which
	// takes milliseconds and megabytes, and nobody else in this program uses the
	// library. It must not change once there is a map.
	cmap.SHARD_COUNT = 1
}

// heapPercent is the percentage for so many bytes that live.
func heapPercent(live uint64) int {
	if live > largeHeap {
		return largeHeapPercent
	}
	return smallHeapPercent
}

// paceHeap keeps the percentage right until over is closed. GOGC in the
// environment overrides it.
func paceHeap(over <-chan struct{}) {
	if os.Getenv("GOGC") != "" {
		return
	}
	percent := smallHeapPercent
	debug.SetGCPercent(percent)
	look := time.NewTicker(heapLook)
	defer look.Stop()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for {
		select {
		case <-over:
			return
		case <-look.C:
		}
		metrics.Read(live)
		if live[0].Value.Kind() != metrics.KindUint64 {
			continue
		}
		if p := heapPercent(live[0].Value.Uint64()); p != percent {
			percent = p
			debug.SetGCPercent(percent)
		}
	}
}
