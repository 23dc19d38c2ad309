package main

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
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
