package e2e_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/testkit"
)

func newBenchHost(b *testing.B, entries servers) *benchHost {
	b.Helper()
	return startBench(b, testkit.Host{Servers: entries, Settings: map[string]any{"pool": map[string]any{"poolSize": 50}}})
}

func scriptLine(code string) string {
	return `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":` + executeParams(code) + `}`
}

func percentile(took []time.Duration, p int) time.Duration {
	slices.Sort(took)
	return took[min(len(took)*p/100, len(took)-1)]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// BenchmarkExecuteStart measures a script that does nothing, from the client's
// line to the answer: with a worker that is ready, and one right after the
// other, when the next worker has to start first.
func BenchmarkExecuteStart(b *testing.B) {
	for name, pause := range map[string]time.Duration{"ready": 100 * time.Millisecond, "back-to-back": 0} {
		b.Run(name, func(b *testing.B) {
			h := newBenchHost(b, servers{"demo": testkit.DemoServer(b)})
			line := scriptLine("return 1")
			h.round(b, line)
			for b.Loop() {
				<-time.After(pause) // a client thinks between two scripts
				h.took = append(h.took, h.round(b, line))
			}
			b.ReportMetric(ms(percentile(h.took, 50)), "p50-ms")
			b.ReportMetric(ms(percentile(h.took, 99)), "p99-ms")
		})
	}
}

// BenchmarkExecuteCalls measures a hundred calls in sequence made by a script
// against the same calls made by the client, in turn.
func BenchmarkExecuteCalls(b *testing.B) {
	h := newBenchHost(b, servers{"demo": testkit.DemoServer(b)})
	const text = "0123456789012345678901234567890123456789012345678901234567890"
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":` + callParams("demo", "echo", `{"text":"`+text+`"}`) + `}`
	script := scriptLine(`for (let i = 0; i < 100; i++) await servers.demo.echo({text: "` + text + `"})`)
	for range 200 {
		h.round(b, call)
	}
	h.round(b, script)
	var direct, scripted []time.Duration
	for b.Loop() {
		begin := time.Now()
		for range 100 {
			h.round(b, call)
		}
		direct = append(direct, time.Since(begin))
		scripted = append(scripted, h.round(b, script))
	}
	d, s := percentile(direct, 50), percentile(scripted, 50)
	b.ReportMetric(ms(d), "direct-ms")
	b.ReportMetric(ms(s), "script-ms")
	b.ReportMetric(float64(s)/float64(d), "script/direct")
}

// BenchmarkExecuteParallel measures a hundred calls of 5 ms to ten children,
// one after the other and all at once.
func BenchmarkExecuteParallel(b *testing.B) {
	entries := servers{}
	for i := range 10 {
		entries[fmt.Sprint("s", i)] = testkit.DemoServer(b)
	}
	h := newBenchHost(b, entries)
	sequence := scriptLine(`for (let i = 0; i < 100; i++) await servers["s" + i % 10].slow({ms: 5})`)
	parallel := scriptLine(`await Promise.all(Array.from({length: 100}, (_, i) => servers["s" + i % 10].slow({ms: 5})))`)
	h.round(b, sequence) // starts them
	var one, all []time.Duration
	for b.Loop() {
		one = append(one, h.round(b, sequence))
		all = append(all, h.round(b, parallel))
	}
	b.ReportMetric(ms(percentile(one, 50)), "sequence-ms")
	b.ReportMetric(ms(percentile(all, 50)), "parallel-ms")
	b.ReportMetric(float64(percentile(one, 50))/float64(percentile(all, 50)), "times-faster")
}

// hostileScripts each break another bound.
var hostileScripts = []string{
	`for (;;) {}`, `const a = []; for (;;) a.push("x".repeat(1000) + a.length)`, `const f = n => f(n + 1) + 1; return f(0)`,
	`for (;;) await null`, `return "x".repeat(2 ** 29)`, `return await new Promise(() => {})`, `for (;;) await servers.demo.echo({text: "x"})`,
}

// BenchmarkExecuteHostile measures the calls of one client while another
// client's worth of hostile scripts runs in the same host, and the memory of
// the host before and after a thousand of them.
func BenchmarkExecuteHostile(b *testing.B) {
	p := testkit.StartHost(b, testkit.Host{Servers: servers{"demo": testkit.DemoServer(b)}, Settings: map[string]any{"execute": map[string]any{"timeoutMs": 500}}})
	c := &client{Lines: p.Lines(b), p: p, t: b}
	c.Handshake()
	measure := func(n int) []time.Duration {
		var took []time.Duration
		for range n {
			begin := time.Now()
			c.call("demo", "echo", `{"text":"x"}`)
			took = append(took, time.Since(begin))
		}
		return took
	}
	for i := range 20 {
		c.executedBy(c.script(hostileScripts[i%len(hostileScripts)]))
	}
	measure(200)
	for b.Loop() {
		calm := percentile(measure(2000), 99)
		before := residentKiB(b, p.PID)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := 0; i < 1000; i += 8 { // as many at once as may run
				var ids []string
				for j := range 8 {
					ids = append(ids, c.script(hostileScripts[(i+j)%len(hostileScripts)]))
				}
				for _, id := range ids {
					c.executedBy(id)
				}
			}
		}()
		var under []time.Duration
		for busy := true; busy; {
			select {
			case <-done:
				busy = false
			default:
				under = append(under, measure(10)...)
			}
		}
		after := residentKiB(b, p.PID)
		b.ReportMetric(ms(calm), "calm-p99-ms")
		b.ReportMetric(ms(percentile(under, 99)), "hostile-p99-ms")
		b.ReportMetric(float64(percentile(under, 99))/float64(calm), "hostile/calm")
		b.ReportMetric(before/1024, "MiB-before")
		b.ReportMetric(after/1024, "MiB-after")
	}
}

// residentKiB is the memory of a process.
func residentKiB(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Logf("this system does not tell the memory of a process: %v", err)
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	if err != nil {
		b.Fatal(err)
	}
	return kib
}
