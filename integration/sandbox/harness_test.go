package sandbox_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/sandbox"
	"github.com/metamcp/metamcp/integration/sandbox/worker"
)

// The test binary is its own worker.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == workerCommand {
		os.Exit(worker.Main(os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) == 3 && os.Args[1] == hostCommand {
		beHost(os.Args[2])
		os.Exit(0)
	}
	os.Exit(withPlainWorker(m.Run))
}

// plainWorker is a worker without the race detector, "" where this binary has
// none itself.
var plainWorker string

func withPlainWorker(run func() int) int {
	if !raceEnabled {
		return run()
	}
	dir, err := os.MkdirTemp("", "metamcp-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	plainWorker = filepath.Join(dir, "worker")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", plainWorker, "./internal/workermain")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as make vet compiles it: the cache has it
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build a worker: %v\n%s", err, out)
		return 1
	}
	return run()
}

const (
	hostCommand   = "be-a-host"
	workerCommand = "sandbox-worker"
	patience      = 90 * time.Second
)

// host runs one script and answers what it asks.
type host struct {
	w      *sandbox.Worker
	answer func(a *sandbox.Ask) *sandbox.Reply // nil result: no answer ever

	ready    chan sandbox.Status
	finished chan *sandbox.Outcome
	gone     chan error

	mu    sync.Mutex
	lines []sandbox.Line
	asks  []*sandbox.Ask
}

func (h *host) Ready(s sandbox.Status) { h.ready <- s }

func (h *host) Asked(run uint64, a *sandbox.Ask) {
	h.mu.Lock()
	h.asks = append(h.asks, a)
	h.mu.Unlock()
	if r := h.answer(a); r != nil {
		r.ID = a.ID
		h.w.Reply(run, r)
	}
}

func (h *host) Said(_ uint64, l sandbox.Line) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, l)
}

func (h *host) Finished(_ uint64, o *sandbox.Outcome) { h.finished <- o }
func (h *host) Gone(err error)                        { h.gone <- err }

// text is what the console said.
func (h *host) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var b strings.Builder
	for _, l := range h.lines {
		fmt.Fprintf(&b, "%s: %s\n", l.Level, l.Text)
	}
	return b.String()
}

// launch starts a worker without the race detector, launchSelf one that has it
// where the test has.
func launch(tb testing.TB, answer func(*sandbox.Ask) *sandbox.Reply) *host {
	tb.Helper()
	if plainWorker == "" {
		return launchSelf(tb, answer)
	}
	return launchAs(tb, sandbox.Options{Path: plainWorker}, answer)
}

func launchSelf(tb testing.TB, answer func(*sandbox.Ask) *sandbox.Reply) *host {
	tb.Helper()
	return launchAs(tb, sandbox.Options{Path: os.Args[0], Args: []string{workerCommand}}, answer)
}

func launchAs(tb testing.TB, o sandbox.Options, answer func(*sandbox.Ask) *sandbox.Reply) *host {
	tb.Helper()
	l, err := sandbox.NewLauncher(o)
	if err != nil {
		tb.Fatal(err)
	}
	if answer == nil {
		answer = echo
	}
	h := &host{answer: answer, ready: make(chan sandbox.Status, 1), finished: make(chan *sandbox.Outcome, 1), gone: make(chan error, 1)}
	launched := make(chan struct{})
	inner := h.answer
	h.answer = func(a *sandbox.Ask) *sandbox.Reply { <-launched; return inner(a) }
	if h.w, err = l.Launch(h); err != nil {
		tb.Fatal(err)
	}
	close(launched)
	tb.Cleanup(func() {
		h.w.Kill()
		h.await(tb, "the end of the process", nil, h.gone)
		h.gone <- nil
	})
	select {
	case <-h.ready:
	case err := <-h.gone:
		h.gone <- err
		tb.Fatal("the worker was never ready: ", err)
	case <-time.After(patience):
		tb.Fatal("the worker was never ready")
	}
	return h
}

func (h *host) await(tb testing.TB, what string, finished chan *sandbox.Outcome, gone chan error) (*sandbox.Outcome, error) {
	tb.Helper()
	select {
	case o := <-finished:
		return o, nil
	case err := <-gone:
		return nil, err
	case <-time.After(patience):
		tb.Fatalf("%s did not come", what)
		return nil, nil
	}
}

// run gives the script to a worker and returns its outcome. A process that ends
// without one fails the test.
func (h *host) run(tb testing.TB, s *sandbox.Script) *sandbox.Outcome {
	tb.Helper()
	if err := h.w.Run(1, s); err != nil {
		tb.Fatal(err)
	}
	o, err := h.await(tb, "an outcome", h.finished, nil)
	if err != nil {
		tb.Fatal("the worker ended without an outcome: ", err)
	}
	// The process ends by itself, whatever happened.
	_, err = h.await(tb, "the end of the process", nil, h.gone)
	h.gone <- err
	return o
}

// echo answers every call with its arguments.
func echo(a *sandbox.Ask) *sandbox.Reply {
	if a.Kind == sandbox.AskCall && a.Tool == "fail" {
		return &sandbox.Reply{Err: &sandbox.CallError{
			Code: "TOOL_EXECUTION_ERROR", Server: a.Server, Tool: a.Tool, Class: "TOOL", Message: "the tool says no", Hint: "try another", Retryable: true, RetryAfterMs: 5,
		}}
	}
	value, err := json.Marshal(map[string]any{
		"kind": a.Kind, "server": a.Server, "tool": a.Tool, "args": a.Args, "raw": a.Raw, "timeoutMs": a.TimeoutMs,
	})
	if err != nil {
		panic(err)
	}
	return &sandbox.Reply{Value: value}
}

// testServers are what the scripts of the tests reach.
func testServers() []sandbox.Server {
	return []sandbox.Server{
		{Name: "files", Title: "Files", State: "IDLE", Tools: []string{"read_file", "write-file", "fail"}},
		{Name: "my server/2", Tools: []string{"x"}},
		{Name: "list", Tools: []string{"call", "then", "constructor", "__proto__", "toString", "list"}},
		{Name: "__proto__", Tools: []string{"a"}},
		{Name: "quiet"},
		{Name: "many", ToolsOmitted: true},
	}
}

// js runs code with the servers of the tests.
func js(tb testing.TB, code string) (*sandbox.Outcome, *host) {
	tb.Helper()
	h := launch(tb, nil)
	return h.run(tb, &sandbox.Script{Code: code, Servers: testServers(), Results: []string{"r1"}, Limits: sandbox.Limits{Wall: 60 * time.Second}}), h
}

// value runs code, which must end well, and returns its value.
func value(tb testing.TB, code string) string {
	tb.Helper()
	o, _ := js(tb, code)
	if o.Failure != nil {
		tb.Fatalf("%s: %s\n%s\n%s", o.Failure.Kind, o.Failure.Message, o.Failure.Excerpt, o.Failure.Stack)
	}
	return string(o.Value)
}

// beHost is a host that TestHostIsKilled kills.
func beHost(code string) {
	l, err := sandbox.NewLauncher(sandbox.Options{Path: os.Args[0], Args: []string{workerCommand}})
	if err != nil {
		panic(err)
	}
	h := &host{answer: echo, ready: make(chan sandbox.Status, 1), finished: make(chan *sandbox.Outcome, 1), gone: make(chan error, 1)}
	if h.w, err = l.Launch(h); err != nil {
		panic(err)
	}
	<-h.ready
	if code != "" {
		if err := h.w.Run(1, &sandbox.Script{Code: "console.log(1);" + code}); err != nil {
			panic(err)
		}
		for h.text() == "" {
			select {
			case <-h.gone:
				return
			default:
			}
		}
	}
	fmt.Println(h.w.PID())
	<-h.gone
}
