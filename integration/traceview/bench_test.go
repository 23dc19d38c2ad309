package traceview_test

import (
	"bytes"
	"testing"

	"github.com/metamcp/metamcp/integration/traceview"
)

func BenchmarkRead(b *testing.B) {
	g := &generator{}
	g.start()
	for id := range uint64(1000) {
		g.call(id+1, "demo", "echo", "ok")
	}
	text := g.text(b)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		read(b, text)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(g.records)), "ns/record")
}

func BenchmarkChrome(b *testing.B) {
	g := &generator{}
	g.start()
	for id := range uint64(1000) {
		g.call(id+1, "demo", "echo", "ok")
	}
	trace := read(b, g.text(b))
	for b.Loop() {
		var out bytes.Buffer
		if err := traceview.WriteChrome(&out, trace, trace.Requests); err != nil {
			b.Fatal(err)
		}
	}
}
