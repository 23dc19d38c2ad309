package store

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
)

// filled makes a store as a large host has it: 10,000 vectors of 384 numbers and
// 200 listings of 75 KB.
func filled(b *testing.B) string {
	b.Helper()
	path := b.TempDir()
	s := mustOpen(b, path, Options{})
	for i := range 10 {
		mustPut(b, s, "m", vectors(i*1000, (i+1)*1000, 384, "b"))
	}
	listings := map[string][]byte{}
	for i := range 200 {
		listings[fmt.Sprint("server-", i)] = text(75<<10, uint64(i))
	}
	mustPutListings(b, s, listings)
	mustClose(b, s)
	return path
}

func BenchmarkOpenEmpty(b *testing.B) {
	path := b.TempDir()
	mustClose(b, mustOpen(b, path, Options{}))
	for b.Loop() {
		s := mustOpen(b, path, Options{})
		b.StopTimer()
		mustClose(b, s)
		b.StartTimer()
	}
}

// resident returns the resident memory of this process, 0 where unknown.
func resident() (kib float64) {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	if _, rest, ok := strings.Cut(string(data), "VmRSS:"); ok {
		_, _ = fmt.Sscan(rest, &kib)
	}
	return kib
}

func BenchmarkOpenFilled(b *testing.B) {
	path := filled(b)
	runtime.GC()
	before := resident()
	for b.Loop() {
		s := mustOpen(b, path, Options{})
		b.StopTimer()
		b.ReportMetric((resident()-before)/1024, "RSS-MiB-more")
		mustClose(b, s)
		b.StartTimer()
	}
}

func BenchmarkPutVectors1000(b *testing.B) {
	s := mustOpen(b, b.TempDir(), Options{})
	items := vectors(0, 1000, 384, "b")
	round := 0
	for b.Loop() {
		round++
		for i := range items {
			items[i].Values[0] = float32(round)
		}
		mustPut(b, s, "m", items)
	}
	b.StopTimer()
	mustClose(b, s)
}

func BenchmarkVectors10000(b *testing.B) {
	s := mustOpen(b, filled(b), Options{})
	hashes := make([][32]byte, 10000)
	for i := range hashes {
		hashes[i] = vector(i, 1, "").Hash
	}
	flat := make([]float32, 10000*384)
	b.ReportAllocs()
	for b.Loop() {
		n, err := s.Vectors("m", hashes, func(i int, v []float32) { copy(flat[i*384:], v) })
		if n != len(hashes) || err != nil {
			b.Fatal(n, err)
		}
	}
	b.StopTimer()
	mustClose(b, s)
}

func BenchmarkListings200(b *testing.B) {
	s := mustOpen(b, filled(b), Options{})
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		if err := s.Listings(func(string, []byte) error { n++; return nil }); err != nil || n != 200 {
			b.Fatal(n, err)
		}
	}
	b.StopTimer()
	mustClose(b, s)
}
