package e2e_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/testkit"
)

// baselineVariable names another metamcp binary to measure beside this one.
const baselineVariable = "METAMCP_BENCH_BASELINE"

// benchHost is one of several hosts that are measured side by side.
type benchHost struct {
	name string
	p    *testkit.Process
	out  *bufio.Reader
	took []time.Duration
}

// newBenchClient is the only client of a process over stdio.
func newBenchClient(b *testing.B, p *testkit.Process) *benchHost {
	b.Helper()
	return &benchHost{p: p, out: bufio.NewReaderSize(p.Stdout(b), 1<<20)}
}

func (h *benchHost) round(b *testing.B, line string) time.Duration {
	b.Helper()
	begin := time.Now()
	h.answer(b, line)
	return time.Since(begin)
}

// answer sends a line and returns the next one, which lasts until the next call.
func (h *benchHost) answer(b *testing.B, line string) []byte {
	b.Helper()
	if _, err := io.WriteString(h.p.Stdin(), line+"\n"); err != nil {
		b.Fatal(err)
	}
	answer, err := h.out.ReadSlice('\n')
	if err != nil {
		b.Fatal(err)
	}
	return answer
}

// BenchmarkWhatIsSeenOfACall measures what trace and audit log cost a call of
// 100 bytes to a real child. The hosts are called in a random order, so that all of them
// have the same machine: of each it reports the median, and its ratio to the
// host that only keeps the audit log, as it is by default.
func BenchmarkWhatIsSeenOfACall(b *testing.B) {
	kinds := map[string][]string{
		"default": nil, "untold": {"--audit-file", "off"}, "traced": {"--trace=" + filepath.Join(b.TempDir(), "trace.jsonl")},
	}
	baseline := os.Getenv(baselineVariable)
	if baseline != "" {
		kinds["baseline"] = nil
	}
	var hosts []*benchHost
	for name, args := range kinds {
		host := testkit.Host{Servers: servers{"demo": testkit.DemoServer(b)}, Args: args}
		if name == "baseline" {
			host.Path = baseline
		}
		p := testkit.StartHost(b, host)
		h := &benchHost{name: name, p: p, out: bufio.NewReaderSize(p.Stdout(b), 1<<20)}
		h.round(b, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
		hosts = append(hosts, h)
	}
	const call = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"mcp_call","arguments":{"server":"demo","tool":"echo","args":{"text":"0123456789012345678901234567890123456789012345678901234567890"}}}}`
	for _, h := range hosts {
		for range 500 {
			h.round(b, call)
		}
	}
	for b.Loop() {
		// By chance, since what a host does after a call falls on the next one.
		for _, i := range rand.Perm(len(hosts)) {
			h := hosts[i]
			h.took = append(h.took, h.round(b, call))
		}
	}
	medians := map[string]float64{}
	for _, h := range hosts {
		slices.Sort(h.took)
		medians[h.name] = float64(h.took[len(h.took)/2].Nanoseconds()) / float64(time.Microsecond)
	}
	for name, median := range medians {
		b.ReportMetric(median, name+"-p50-µs")
		b.ReportMetric(median/medians["default"], fmt.Sprint(name, "/default"))
	}
	for _, h := range hosts {
		h.p.CloseStdin()
		h.p.Wait(b, patience)
	}
}
