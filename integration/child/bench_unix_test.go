//go:build unix

package child

import (
	"encoding/json"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// bell is an Ear that only counts frames.
type bell struct{ frames chan int }

func (b bell) Frame(f *messages.Frame)             { b.frames <- f.Size }
func (bell) Flush()                                {}
func (bell) Noise([]byte)                          {}
func (bell) TooLarge(json.RawMessage)              {}
func (bell) Broken(json.RawMessage, []byte, error) {}
func (bell) EOF(error)                             {}
func (bell) Exited(*messages.Exit)                 {}

// take parses next to nothing, so that the transport is measured.
func take(_ []byte, f *messages.Frame) error {
	f.Method = "m"
	return nil
}

func BenchmarkRoundTrip(b *testing.B) {
	for _, size := range []int{100, 10_000, 1_000_000} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			l := newLauncher(b, func(o *Options) { o.Parse = take })
			ear := bell{make(chan int, 1)}
			p, err := l.Launch(spec("echo"), 1, ear)
			if err != nil {
				b.Fatal(err)
			}
			defer p.Release()
			head, tail := []byte(`{"p":"`), []byte("\"}\n")
			body := []byte(strings.Repeat("x", size-len(head)-len(tail)))
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if err := p.Sendv(head, body, tail); err != nil {
					b.Fatal(err)
				}
				<-ear.frames
			}
		})
	}
}

// BenchmarkIdleChild reports what a child costs this process while nothing
// happens.
func BenchmarkIdleChild(b *testing.B) {
	const n = 200
	for b.Loop() {
		l := newLauncher(b, func(o *Options) { o.Parse = take })
		debug.FreeOSMemory()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		rss := residentKB(b)
		procs := make([]*Process, n)
		ear := bell{make(chan int, 1)}
		for i := range procs {
			s := &messages.ServerSpec{Name: "cat", Command: "cat", Env: []string{"PATH=" + os.Getenv("PATH")}}
			p, err := l.Launch(s, uint64(i), ear)
			if err != nil {
				b.Fatal(err)
			}
			procs[i] = p
			if err := p.Send([]byte(`{"method":"hello"}`)); err != nil {
				b.Fatal(err)
			}
			<-ear.frames
		}
		debug.FreeOSMemory()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(residentKB(b)-rss)/n, "rss-KB/child")
		b.ReportMetric(float64(after.HeapAlloc+after.StackInuse-before.HeapAlloc-before.StackInuse)/1024/n, "go-KB/child")
		for _, p := range procs {
			p.Signal(messages.SignalKill)
		}
		for _, p := range procs {
			p.Release()
		}
	}
}

func residentKB(b *testing.B) int {
	b.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0 // not Linux
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		b.Fatal(err)
	}
	return pages * os.Getpagesize() / 1024
}
