//go:build unix

package soak_test

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
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

// briefCommand makes this test binary a small MCP server.
const briefCommand = "brief-server"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == briefCommand {
		briefServer(os.Stdin, os.Stdout)
		os.Exit(0)
	}
	os.Exit(testkit.Main(m))
}

const (
	// shortRun is how long an ordinary test run lasts: it shows that the load and the
	// looks work, and tells nothing of slopes.
	shortRun = 5 * time.Second
	patience = 2 * time.Minute
	places   = 13 // fewer than there are connections, so that some are evicted all the time
)

// TestSoak puts a mixed load with faults on a host for SOAK_HOURS hours, or until
// SOAK_CALLS calls were made. It writes soak.csv and soak.svg to SOAK_DIR and fails
// where something grew.
func TestSoak(t *testing.T) {
	short := os.Getenv("SOAK_HOURS") == ""
	lasts := shortRun
	if !short {
		lasts = time.Duration(number(t, "SOAK_HOURS", 1) * float64(time.Hour))
	}
	s := newStand(t, load(short), uint64(number(t, "SOAK_CALLS", 1e18)))
	samples := s.run(lasts, int(number(t, "SOAK_CLIENTS", 4)))
	dir := os.Getenv("SOAK_DIR")
	if dir == "" {
		dir = t.TempDir()
	}
	s.write(filepath.Join(dir, "soak.csv"), func(f *os.File) error { return soak.WriteCSV(f, samples) })
	s.write(filepath.Join(dir, "soak.svg"), func(f *os.File) error { return soak.WriteSVG(f, samples) })
	last := samples[len(samples)-1]
	t.Logf("%d samples, %d clients; answers of calls to servers that do no wrong: %d well, %d with an error; at the end %+v",
		len(samples), s.came.Load(), s.well.Load(), s.ill.Load(), last)
	if well, ill := s.well.Load(), s.ill.Load(); well == 0 || ill > well/1000 {
		t.Errorf("of calls to servers that do no wrong %d were answered and %d failed, the last with %.500s", well, ill, s.lastIll())
	}
	if short {
		return // a host that has just started grows, as it should
	}
	for _, g := range soak.Steady(samples) {
		t.Error(g)
	}
}

// number is what an environment variable says, or what is meant without it.
func number(t *testing.T, name string, otherwise float64) float64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n <= 0 {
		t.Fatalf("%s is %q; write a number above 0, such as 0.25 hours, 1e6 calls, 4 clients", name, text)
	}
	return n
}

// stand is a host that clients share.
type stand struct {
	t       *testing.T
	home    string
	mark    string // of the servers
	host    *testkit.Process
	servers map[string]map[string]any
	tally
}

func newStand(t *testing.T, mix []kind, most uint64) *stand {
	t.Helper()
	home, err := os.MkdirTemp("", "soak") //nolint:usetesting // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	s := &stand{t: t, home: home, mark: testkit.NewMark(), servers: map[string]map[string]any{}, tally: tally{mix: mix, most: most}}
	for i := range wells {
		s.servers["well"+strconv.Itoa(i)] = testkit.DemoServer(t)
	}
	s.servers["crashing"] = testkit.DemoServer(t)
	s.servers["slow"] = testkit.DemoServer(t, "--start-delay", "300ms")
	s.servers["flooding"] = testkit.DemoServer(t, "--stderr-lines", "200", "--garbage")
	brief := func(key, value string) map[string]any {
		return map[string]any{"command": os.Args[0], "args": []string{briefCommand}, key: value}
	}
	s.servers["brief"] = brief("lifecycle", "ephemeral")
	s.servers["own"] = brief("scope", "session")
	for i := range rares {
		s.servers["rare"+strconv.Itoa(i)] = brief("scope", "shared")
	}
	s.configure(places)
	s.host = s.metamcp("host")
	testkit.Eventually(t, patience, func() error {
		_, err := s.dial()
		return err
	})
	t.Cleanup(func() { testkit.KillMarked(t, s.mark) })
	return s
}

// configure writes the configuration. A server that crashes goes on being started.
func (s *stand) configure(places int) {
	testkit.WriteConfig(s.t, s.config(), s.mark, s.servers,
		map[string]any{"pool": map[string]any{"poolSize": places, "flapRestarts": 0, "cooldownMs": 500}})
}

func (s *stand) config() string   { return filepath.Join(s.home, "mcp.json") }
func (s *stand) stateDir() string { return filepath.Join(s.home, ".metamcp") }

func (s *stand) metamcp(words ...string) *testkit.Process {
	return testkit.StartCommand(s.t, testkit.Command{
		Path: testkit.PlainBinary(s.t), Args: append(words, "--config", s.config()),
		Env: []string{"HOME=" + s.home, "USERPROFILE=" + s.home}, Dir: s.home,
	})
}

func (s *stand) dial() (*control.Client, error) {
	info, err := control.Find(s.stateDir(), "")
	if err != nil {
		return nil, err
	}
	return control.Dial(info)
}

// run puts the load on for some time and looks at the host once a minute, or sixty
// times where that is less than an hour.
func (s *stand) run(lasts time.Duration, clients int) []soak.Sample {
	ctx, cancel := context.WithTimeout(s.t.Context(), lasts)
	defer cancel()
	s.enough = cancel
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() { s.keepClient(ctx, i, max(lasts/30, 2*time.Second)) })
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
			s.configure(places - 1 + n%3)
		}
	}
}

// look asks the host, the system and the clients.
func (s *stand) look(began time.Time) soak.Sample {
	s.t.Helper()
	out := soak.Sample{Seconds: time.Since(began).Seconds()}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	host, err := s.dial()
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
		name, value, _ := strings.Cut(scan.Text(), " ")
		n, _ := strconv.ParseFloat(value, 64)
		switch name, _, _ = strings.Cut(name, "{"); name {
		case "go_goroutines":
			out.Goroutines = n
		case "metamcp_server_spawns_total":
			out.Spawns += n
		}
	}
	if procs, err := testkit.Marked(s.mark); err == nil {
		out.Processes = float64(len(testkit.Live(procs)))
	}
	out.PrivateMB = s.private()
	out.StoreMB, out.LogsMB = s.onDisk()
	out.Calls = float64(s.calls.Load())
	out.P50, out.P99 = s.latency()
	return out
}

// private is the host's resident memory that no file stands behind.
func (s *stand) private() float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.host.PID))
	if err != nil {
		return 0 // only Linux tells
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "RssAnon:" {
			kb, _ := strconv.ParseFloat(fields[1], 64)
			return kb / 1024
		}
	}
	return 0
}

// onDisk is how many megabytes the index takes, and the logs.
func (s *stand) onDisk() (store, logs float64) {
	_ = filepath.WalkDir(s.stateDir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // files come and go while the host works
		}
		info, err := d.Info()
		if err != nil || info.Size() >= 1<<30 { // badger maps sparse files of more
			return nil //nolint:nilerr // see above
		}
		mb := float64(info.Size()) / (1 << 20)
		if strings.Contains(path, "log") || strings.Contains(path, ".jsonl") {
			logs += mb
		} else {
			store += mb
		}
		return nil
	})
	return store, logs
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

// latency is what the calls since the last sample took, in milliseconds.
func (t *tally) latency() (p50, p99 float64) {
	t.mu.Lock()
	took := t.took
	t.took = nil
	t.mu.Unlock()
	if len(took) == 0 {
		return 0, 0
	}
	slices.Sort(took)
	return float64(took[len(took)/2]), float64(took[len(took)*99/100])
}
