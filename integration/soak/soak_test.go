package soak_test

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/integration/soak"
	"github.com/metamcp/metamcp/integration/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

const (
	// shortRun is how long an ordinary test run lasts: it shows that the load and the
	// looks work, and tells nothing of slopes.
	shortRun = 5 * time.Second
	workers  = 8 // of the client, each with one call at a time
)

// TestSoak puts a mixed load with faults on a host for SOAK_HOURS hours. It writes
// soak.csv and soak.svg to SOAK_DIR and fails where something grew.
func TestSoak(t *testing.T) {
	lasts := shortRun
	if text := os.Getenv("SOAK_HOURS"); text != "" {
		hours, err := strconv.ParseFloat(text, 64)
		if err != nil || hours <= 0 {
			t.Fatalf("SOAK_HOURS is %q; write a number of hours, such as 0.25", text)
		}
		lasts = time.Duration(hours * float64(time.Hour))
	}
	s := newStand(t)
	samples := s.run(lasts)
	dir := os.Getenv("SOAK_DIR")
	if dir == "" {
		dir = t.TempDir()
	}
	s.write(filepath.Join(dir, "soak.csv"), func(f *os.File) error { return soak.WriteCSV(f, samples) })
	s.write(filepath.Join(dir, "soak.svg"), func(f *os.File) error { return soak.WriteSVG(f, samples) })
	last := samples[len(samples)-1]
	t.Logf("%d samples, %.0f calls, at the end %+v", len(samples), last.Calls, last)
	if s.well == 0 || s.ill > s.well/10 {
		t.Errorf("of calls to servers that do no wrong %d were answered and %d failed, the last with %.500s", s.well, s.ill, s.said)
	}
	if lasts == shortRun {
		return // a host that has just started grows, as it should
	}
	for _, g := range soak.Steady(samples) {
		t.Error(g)
	}
}

// stand is a host with its client.
type stand struct {
	t       *testing.T
	host    *testkit.Process
	lines   *testkit.Lines
	servers map[string]map[string]any

	mu    sync.Mutex
	calls int
	well  int       // of those to servers that do no wrong, answered with a result
	ill   int       // and with an error
	said  string    // by the last of these
	took  []float64 // milliseconds, since the last sample
}

func newStand(t *testing.T) *stand {
	t.Helper()
	s := &stand{t: t, servers: map[string]map[string]any{}}
	for i := range 6 {
		s.servers["well"+strconv.Itoa(i)] = testkit.DemoServer(t)
	}
	s.servers["crashing"] = testkit.DemoServer(t)
	s.servers["slow"] = testkit.DemoServer(t, "--start-delay", "300ms")
	s.servers["flooding"] = testkit.DemoServer(t, "--stderr-lines", "200", "--garbage")
	brief := testkit.DemoServer(t)
	brief["lifecycle"] = "ephemeral"
	s.servers["brief"] = brief
	s.host = testkit.StartHost(t, testkit.Host{Path: testkit.PlainBinary(t), Servers: s.servers, Settings: s.settings(6)})
	s.lines = s.host.Lines(t)
	s.lines.Handshake()
	s.host.AwaitControl(t)
	return s
}

// settings have fewer places than there are servers, so that connections are evicted
// all the time; a server that crashes goes on being started.
func (s *stand) settings(places int) map[string]any {
	return map[string]any{"pool": map[string]any{"poolSize": places, "flapRestarts": 0, "cooldownMs": 500}}
}

// run puts the load on for some time and looks at the host once a minute, or sixty
// times where that is less than an hour.
func (s *stand) run(lasts time.Duration) []soak.Sample {
	ctx, cancel := context.WithTimeout(s.t.Context(), lasts)
	defer cancel()
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() { s.work(ctx, i) })
	}
	all.Go(func() { s.reload(ctx, max(lasts/20, time.Second)) })
	const looks = 60
	began := time.Now()
	tick := time.NewTicker(min(time.Minute, max(lasts/looks, 200*time.Millisecond)))
	defer tick.Stop()
	samples := []soak.Sample{s.look(began)}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			samples = append(samples, s.look(began))
		}
	}
	all.Wait()
	return append(samples, s.look(began))
}

// work makes calls of all kinds, one at a time.
func (s *stand) work(ctx context.Context, worker int) {
	random := rand.New(rand.NewPCG(1, uint64(worker))) // the same load each time
	for n := 0; ctx.Err() == nil; n++ {
		id := strconv.Quote(fmt.Sprintf("%d/%d", worker, n))
		var args string
		tool := "mcp_call"
		call := func(server, tool, args string) string {
			return fmt.Sprintf(`{"server":%q,"tool":%q,"args":%s}`, server, tool, args)
		}
		well := "well" + strconv.Itoa(random.IntN(6))
		cancel, timed := false, false
		switch kind := random.IntN(100); {
		case kind < 70:
			args, timed = call(well, "echo", `{"text":"hello"}`), true
		case kind < 76:
			args = call(well, "big", `{"bytes":100000}`)
		case kind < 80:
			args = call("crashing", "crash", `{}`)
		case kind < 84:
			args = call("slow", "echo", `{"text":"late"}`)
		case kind < 88:
			args = call("flooding", "echo", `{"text":"loud"}`)
		case kind < 91:
			args = call("brief", "echo", `{"text":"short"}`)
		case kind < 94:
			tool, args = "mcp_discover", `{"query":"add two numbers"}`
		case kind < 96:
			tool, args = "mcp_execute", fmt.Sprintf(`{"code":"return await mcp.call('%s', 'add', {a: 1, b: 2})"}`, well)
		default:
			args, cancel = call(well, "slow", `{"ms":60000}`), true
		}
		began := time.Now()
		s.lines.Send([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `}}`))
		if cancel {
			s.lines.Send([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`))
			continue // a request that is cancelled is not answered
		}
		const patience = 2 * time.Minute
		answer, err := s.lines.Match(patience, func(m testkit.Line) bool { return m.Method == "" && string(m.ID) == id })
		if err != nil {
			s.t.Errorf("%s %s: %v", tool, args, err)
			return
		}
		s.mu.Lock()
		s.calls++
		if timed {
			s.took = append(s.took, float64(time.Since(began).Microseconds())/1000)
			if text := string(answer); strings.Contains(text, `"isError":true`) || strings.Contains(text, `"error":`) {
				s.ill, s.said = s.ill+1, text
			} else {
				s.well++
			}
		}
		s.mu.Unlock()
	}
}

// reload changes the configuration again and again.
func (s *stand) reload(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if n%2 == 0 {
				s.servers["guest"] = testkit.DemoServer(s.t)
			} else {
				delete(s.servers, "guest")
			}
			testkit.WriteConfig(s.t, s.host.ConfigFile(), s.host.Mark, s.servers, s.settings(5+n%3))
		}
	}
}

// look asks the host, the system and the client.
func (s *stand) look(began time.Time) soak.Sample {
	s.t.Helper()
	out := soak.Sample{Seconds: time.Since(began).Seconds()}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	info, err := control.Find(s.host.StateDir(), "")
	if err != nil {
		s.t.Fatal(err)
	}
	host, err := control.Dial(info)
	if err != nil {
		s.t.Fatal(err)
	}
	defer host.Close()
	st, err := host.Status(ctx, false)
	if err != nil {
		s.t.Fatal(err)
	}
	out.Descriptors = float64(st.Descriptors)
	resp, err := host.Do(ctx, "GET", "/metrics", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	for scan := bufio.NewScanner(resp.Body); scan.Scan(); {
		if n, ok := strings.CutPrefix(scan.Text(), "go_goroutines "); ok {
			out.Goroutines, _ = strconv.ParseFloat(n, 64)
		}
	}
	if procs, err := testkit.Marked(s.host.Mark); err == nil {
		out.Processes = float64(len(testkit.Live(procs)))
	}
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.host.PID)); err == nil {
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "RssAnon:" {
				kb, _ := strconv.ParseFloat(fields[1], 64)
				out.PrivateMB = kb / 1024
			}
		}
	}
	_ = filepath.WalkDir(s.host.StateDir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(path, "logs") || filepath.Ext(path) == ".jsonl" {
			return nil //nolint:nilerr // files come and go while the host works
		}
		if info, err := d.Info(); err == nil && info.Size() < 1<<30 { // badger maps sparse files of more
			out.StoreMB += float64(info.Size()) / (1 << 20)
		}
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	out.Calls = float64(s.calls)
	if n := len(s.took); n > 0 {
		slices.Sort(s.took)
		out.P50, out.P99 = s.took[n/2], s.took[n*99/100]
		s.took = s.took[:0]
	}
	return out
}

func (s *stand) write(path string, fill func(f *os.File) error) {
	s.t.Helper()
	f, err := os.Create(path)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := fill(f); err != nil {
		s.t.Error(err)
	}
	if err := f.Close(); err != nil {
		s.t.Error(err)
	}
}
