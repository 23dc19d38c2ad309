package sandbox_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/sandbox"
)

// BenchmarkStart is a run as a caller meets it: a process that has been ready for
// a moment, and the value of the smallest script.
func BenchmarkStart(b *testing.B) {
	for _, lang := range []sandbox.Language{sandbox.JavaScript, sandbox.TypeScript} {
		b.Run(lang.String(), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				h := launch(b, nil)
				<-time.After(100 * time.Millisecond) // as after an earlier script
				b.StartTimer()
				if err := h.w.Run(1, &sandbox.Script{Code: "return 1", Language: lang}); err != nil {
					b.Fatal(err)
				}
				o := <-h.finished
				b.StopTimer()
				if string(o.Value) != "1" {
					b.Fatal(o.Failure)
				}
				h.w.Kill()
				err := <-h.gone
				h.gone <- err
				b.StartTimer()
			}
		})
	}
}

// BenchmarkLaunch is what it takes to have a process ready, and how large it is.
func BenchmarkLaunch(b *testing.B) {
	var resident int
	for b.Loop() {
		h := launch(b, nil)
		b.StopTimer()
		if runtime.GOOS == "linux" {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.w.PID()))
			if err != nil {
				b.Fatal(err)
			}
			_, rest, _ := strings.Cut(string(status), "VmRSS:")
			_, _ = fmt.Sscan(rest, &resident)
		}
		h.w.Kill()
		err := <-h.gone
		h.gone <- err
		b.StartTimer()
	}
	b.ReportMetric(float64(resident)/1024, "MiB-resident")
}

// BenchmarkCalls is a script's call to its host and back, one after the other.
func BenchmarkCalls(b *testing.B) {
	h := launch(b, func(*sandbox.Ask) *sandbox.Reply { return &sandbox.Reply{Value: []byte(`{"content":"some text"}`)} })
	b.ResetTimer()
	code := fmt.Sprintf(`for (let i = 0; i < %d; i++) await servers.files.read_file({path: "/a/file"})`, b.N)
	if err := h.w.Run(1, &sandbox.Script{Code: code, Servers: testServers(), Limits: sandbox.Limits{Calls: b.N, Wall: time.Hour}}); err != nil {
		b.Fatal(err)
	}
	if o := <-h.finished; o.Failure != nil {
		b.Fatal(o.Failure)
	}
}

// BenchmarkValue is a large value on its way out: 100,000 small objects.
func BenchmarkValue(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		h := launch(b, nil)
		b.StartTimer()
		o := h.run(b, &sandbox.Script{Code: `return Array.from({length: 1e5}, (_, i) => ({id: i, name: "item " + i, ok: true}))`})
		if o.Failure != nil {
			b.Fatal(o.Failure)
		}
		b.SetBytes(int64(len(o.Value)))
	}
}
