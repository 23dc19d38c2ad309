package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/metamcp/metamcp/integration/testkit"
)

// BenchmarkLiveChildren measures a call to one of 10 and to one of 1,000 children
// that are all alive, and what the host holds for them right after the calls and once
// it has come to rest. The two hosts run side by side and are called in turn, so that
// both have the same machine.
func BenchmarkLiveChildren(b *testing.B) {
	sizes := []int{10, 1000}
	var hosts []*benchHost
	for _, n := range sizes {
		entries := servers{}
		for i := range n {
			entries["s"+strconv.Itoa(i)] = testkit.DemoServer(b)
		}
		h := startBench(b, testkit.Host{Path: testkit.PlainBinary(b), Servers: entries, Settings: map[string]any{"pool": map[string]any{"poolSize": n + 24}}})
		begin := time.Now()
		for i := range n {
			h.called(b, i)
		}
		b.ReportMetric(time.Since(begin).Seconds(), fmt.Sprintf("s-until-%d-live", n))
		hosts = append(hosts, h)
	}
	for b.Loop() {
		for i, h := range hosts {
			h.took = append(h.took, h.called(b, rand.IntN(sizes[i])))
		}
	}
	for i, h := range hosts {
		n := sizes[i]
		b.ReportMetric(ms(percentile(h.took, 50)), fmt.Sprintf("p50-ms-%d", n))
		b.ReportMetric(ms(percentile(h.took, 99)), fmt.Sprintf("p99-ms-%d", n))
		b.ReportMetric(privateMB(b, h.p.PID), fmt.Sprintf("busy-private-MB-%d", n))
		if procs, err := testkit.Marked(h.p.Mark); err != nil || len(testkit.Live(procs)) < n {
			b.Errorf("%d processes live of %d children: %v", len(testkit.Live(procs)), n, err)
		}
		b.ReportMetric(restedMB(b, h.p.PID), fmt.Sprintf("private-MB-%d", n))
	}
}

// startBench starts a host and shakes hands with it.
func startBench(b *testing.B, of testkit.Host) *benchHost {
	b.Helper()
	p := testkit.StartHost(b, of)
	h := newBenchClient(b, p)
	h.round(b, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
	b.Cleanup(func() {
		p.CloseStdin()
		p.Wait(b, patience)
	})
	return h
}

func (h *benchHost) called(b *testing.B, server int) time.Duration {
	b.Helper()
	return h.round(b, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":`+callParams("s"+strconv.Itoa(server), "echo", `{"text":"hello"}`)+`}`)
}

// restedMB is privateMB once the host has had the time to come to rest.
func restedMB(b *testing.B, pid int) float64 {
	b.Helper()
	const rested = 20 * time.Second // heap.go's restAfter, and a collection
	<-time.After(rested)
	return privateMB(b, pid)
}

// privateMB is the resident memory of a process that no other shares.
func privateMB(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal("memory is read from /proc: ", err)
	}
	return statusMB(string(text), "RssAnon:")
}

func statusMB(status, key string) float64 {
	for line := range strings.Lines(status) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == key {
			kb, _ := strconv.ParseFloat(fields[1], 64)
			return kb / 1024
		}
	}
	return 0
}

// BenchmarkManyServers measures a host with SCALE_SERVERS configured servers (10,000)
// of SCALE_TOOLS tools each (one), whose lists are in its cache: until it answers
// tools/list, a query, and what it holds. The servers speak HTTP, all of them from this
// process, so that they can be listed within minutes. SCALE_DIR names a home folder that
// is kept and used again.
func BenchmarkManyServers(b *testing.B) {
	many := fromEnv(b, "SCALE_SERVERS", 10_000)
	farm := newFarm(b, fromEnv(b, "SCALE_TOOLS", 1))
	home := os.Getenv("SCALE_DIR")
	if home == "" {
		home = b.TempDir()
	}
	entries := servers{}
	for i := range many {
		entries["s"+strconv.Itoa(i)] = map[string]any{"url": farm.URL + "/" + strconv.Itoa(i)}
	}
	testkit.WriteConfig(b, filepath.Join(home, ".mcp.json"), testkit.NewMark(), entries, nil)
	lister := homeHost(b, home)
	testkit.Eventually(b, time.Hour, func() error {
		var a struct{ Pending []string }
		lister.asks(b, "read the file that was changed", &a)
		if len(a.Pending) > 0 {
			return fmt.Errorf("%d servers are not listed yet", len(a.Pending))
		}
		return nil
	})
	lister.p.CloseStdin()
	lister.p.Wait(b, time.Minute)

	var begun, first []time.Duration
	var h *benchHost
	for range 5 {
		if h != nil {
			h.p.CloseStdin()
			h.p.Wait(b, time.Minute)
		}
		begin := time.Now()
		h = homeHost(b, home)
		h.round(b, `{"jsonrpc":"2.0","id":9,"method":"tools/list","params":{}}`)
		begun = append(begun, time.Since(begin))
		begin = time.Now()
		h.asks(b, "until the lists are read", &struct{}{})
		first = append(first, time.Since(begin))
	}
	for i := 0; b.Loop(); i++ {
		begin := time.Now()
		h.asks(b, fmt.Sprintf("%s the %s that was changed %d days ago", verbs[i%len(verbs)], nouns[i/len(verbs)%len(nouns)], i), &struct{}{})
		h.took = append(h.took, time.Since(begin))
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.p.PID))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(ms(percentile(begun, 50)), "start-ms")
	b.ReportMetric(ms(percentile(first, 50)), "first-query-ms")
	b.ReportMetric(ms(percentile(h.took, 50)), "query-p50-ms")
	b.ReportMetric(ms(percentile(h.took, 99)), "query-p99-ms")
	b.ReportMetric(privateMB(b, h.p.PID), "private-MB")
	b.ReportMetric(statusMB(string(text), "VmRSS:"), "resident-MB")
	b.ReportMetric(statusMB(string(text), "VmHWM:"), "at-most-MB")
}

func fromEnv(b *testing.B, name string, otherwise int) int {
	b.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		b.Fatalf("%s is %q; write a number", name, text)
	}
	return n
}

var (
	verbs = []string{"create", "read", "update", "delete", "list", "search", "send", "convert", "merge", "archive"}
	nouns = []string{"file", "issue", "message", "invoice", "calendar event", "customer", "database table", "image", "branch", "alert", "contract"}
)

// newFarm serves any number of MCP servers, one a path, each with tools of its own.
func newFarm(b *testing.B, tools int) *httptest.Server {
	b.Helper()
	var mu sync.Mutex
	made := map[string]http.Handler{}
	farm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		h := made[r.URL.Path]
		if h == nil {
			h = newPlot(r.URL.Path, tools)
			made[r.URL.Path] = h
		}
		mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	b.Cleanup(farm.Close)
	return farm
}

func newPlot(path string, tools int) http.Handler {
	n, _ := strconv.Atoi(strings.TrimPrefix(path, "/"))
	s := server.NewMCPServer("plot"+path, "1.0.0", server.WithToolCapabilities(false))
	for i := range tools {
		verb, noun := verbs[(n+i)%len(verbs)], nouns[(n/7+i)%len(nouns)]
		name := strings.ReplaceAll(verb+"_"+noun, " ", "_")
		s.AddTool(mcp.NewTool(fmt.Sprintf("%s_%d", name, i),
			mcp.WithDescription(fmt.Sprintf("%s a %s of workspace %d. The %s is given by its id; what it holds comes back as text.", verb, noun, n, noun)),
			mcp.WithString("id", mcp.Required(), mcp.Description("Which "+noun)),
			mcp.WithNumber("limit", mcp.Description("At most so many")),
		), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("done"), nil
		})
	}
	return server.NewStreamableHTTPServer(s, server.WithStateLess(true))
}

// homeHost starts a host in a home folder that stays.
func homeHost(b *testing.B, home string) *benchHost {
	b.Helper()
	p := testkit.StartCommand(b, testkit.Command{
		Path: testkit.PlainBinary(b), Args: []string{"--config", filepath.Join(home, ".mcp.json")},
		Env: []string{"HOME=" + home, "USERPROFILE=" + home}, Dir: home, Mark: testkit.NewMark(),
	})
	h := newBenchClient(b, p)
	h.round(b, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
	return h
}

// asks makes a query of mcp_discover and decodes what it answers.
func (h *benchHost) asks(b *testing.B, query string, into any) {
	b.Helper()
	line := h.answer(b, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":`+toolParams("mcp_discover", `{"query":`+strconv.Quote(query)+`}`)+`}`)
	var reply struct {
		Result struct {
			Content []struct{ Text string } `json:"content"`
			IsError bool                    `json:"isError"`
		} `json:"result"`
	}
	if err := json.Unmarshal(line, &reply); err != nil || reply.Result.IsError || len(reply.Result.Content) == 0 {
		b.Fatalf("mcp_discover: %v, %.500s", err, line)
	}
	if err := json.Unmarshal([]byte(reply.Result.Content[0].Text), into); err != nil {
		b.Fatal(err)
	}
}
