package worker

import (
	"fmt"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/sandbox"
)

// BenchmarkEngine is the engine's part of a call: from one to the next, with a
// host that answers at once.
func BenchmarkEngine(b *testing.B) {
	var e *engine
	e, err := newEngine(func(f *sandbox.Frame) error {
		if f.Ask != nil {
			e.inbox.put(event{reply: &sandbox.Reply{ID: f.Ask.ID, Value: []byte(`{"content":"some text"}`)}})
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = e.vm.Close() }()
	e.peak = func() int64 { return 0 }
	s := &sandbox.Script{
		Code:    fmt.Sprintf(`for (let i = 0; i < %d; i++) await servers.files.read_file({path: "/a/file"})`, b.N),
		Servers: []sandbox.Server{{Name: "files", Tools: []string{"read_file"}}},
		Limits:  sandbox.Limits{Calls: b.N, Wall: time.Hour},
	}
	b.ResetTimer()
	used := cpuTime()
	e.prepare(1, s)
	if o := e.execute(s); o.Failure != nil {
		b.Fatal(o.Failure)
	}
	b.ReportMetric(float64((cpuTime()-used).Nanoseconds())/float64(b.N), "cpu-ns/op") // on a busy machine this says more
}
