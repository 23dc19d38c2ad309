package metamcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/integration/traceview"
	"github.com/metamcp/metamcp/messages"
)

var update = flag.Bool("update", false, "write the golden files anew")

// scripted is a run of an engine that is traced from its first to its last
// message.
type scripted struct {
	*testing.T
	e       *metamcp.Engine
	records chan []messages.TraceRecord
	once    sync.Once
}

func newScripted(t *testing.T, servers map[string][]string, settings map[string]any) *scripted {
	t.Helper()
	dir := t.TempDir()
	file, err := writeConfig(dir, children(servers, settings))
	if err != nil {
		t.Fatal(err)
	}
	e, err := metamcp.Open(t.Context(), metamcp.Options{
		Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir}, Log: slog.New(slog.DiscardHandler),
		Sandbox: testkit.Prebuilt(), Watchdog: testkit.Prebuilt(),
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{T: t, e: e, records: make(chan []messages.TraceRecord, 1)}
	t.Cleanup(s.close)
	stream, err := e.WatchTrace(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		var all []messages.TraceRecord
		for r := range stream {
			all = append(all, r)
		}
		s.records <- all
	}()
	return s
}

// call calls a tool and waits until nothing is under way; want is "" or the
// code of the error.
func (s *scripted) call(server, tool, args string, want messages.Code) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	_, err := s.e.Execute(ctx, server, tool, json.RawMessage(args), metamcp.ExecuteOptions{})
	var got *metamcp.Error
	if want == "" && err != nil || want != "" && (!errors.As(err, &got) || got.Code != want) {
		s.Fatalf("%s/%s: %v, want %q", server, tool, err, want)
	}
}

// until polls the host's status.
func (s *scripted) until(what string, ok func(*messages.HostStatus) bool) {
	s.Helper()
	limit := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		st, err := s.e.HostStatus(s.Context(), false)
		if err != nil {
			s.Fatal(err)
		}
		if ok(st) {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			s.Fatalf("it is never so that %s: %+v", what, st.Pool)
		}
	}
}

func (s *scripted) quiet() {
	s.Helper()
	s.until("all connections are idle", func(st *messages.HostStatus) bool {
		busy := st.Pool.Used + st.Pool.ReserveUsed - st.Pool.Idle
		return busy == 0 && st.Pool.Waiters == 0
	})
}

func (s *scripted) server(name string, ok func(*messages.HostServer) bool) func(*messages.HostStatus) bool {
	return func(st *messages.HostStatus) bool {
		for i := range st.Servers {
			if st.Servers[i].Name == name {
				return ok(&st.Servers[i])
			}
		}
		return false
	}
}

// end closes the engine and returns the whole trace.
func (s *scripted) end() []messages.TraceRecord {
	s.Helper()
	s.close()
	select {
	case all := <-s.records:
		return all
	case <-time.After(time.Minute):
		s.Fatal("the trace does not end")
		return nil
	}
}

func (s *scripted) close() {
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.e.Close(ctx); err != nil {
			s.Error(err)
		}
	})
}

// What differs from run to run.
var volatile = regexp.MustCompile(` ?\(wait [^)]*\)|(?:pid )[0-9]+| after [0-9.]+[µnm]?s| [0-9]+ bytes|in [0-9.]+[µm]?s`)

func diagram(t *testing.T, r *traceview.Request) string {
	t.Helper()
	var b bytes.Buffer
	if err := traceview.WriteMermaid(&b, r); err != nil {
		t.Fatal(err)
	}
	// A child's last output and its exit come in either order.
	eof := regexp.MustCompile(`(?m)^.*: runEOF.*\n`)
	return strings.ReplaceAll(eof.ReplaceAllString(volatile.ReplaceAllString(b.String(), ""), ""), "  ", " ")
}

// TestTraceOfAScriptedRun lets happen what can happen to a call, and holds the
// messages of each to docs/TRACE-RUN.md.
func TestTraceOfAScriptedRun(t *testing.T) {
	t.Parallel()
	s := newScripted(t, map[string][]string{"a": nil, "b": nil, "dead": {"--exit-at-start", "3"}}, map[string]any{
		"pool":   map[string]any{"poolSize": 1, "resPoolSize": 1, "resPoolTimeout": 5000, "failureThreshold": 1, "cooldownMs": 10_000},
		"search": map[string]any{"embedder": "none"},
	})
	var doc strings.Builder
	doc.WriteString(strings.TrimLeft(traceRunHead, "\n"))

	steps := []struct{ title, text string }{
		{"The first call starts the child", "Nobody knows the server's tools yet, so its breaker is asked to list them first. The pool has a place, the child is spawned, and the call follows the handshake."},
		{"A call to a child that runs", "Front, breaker, connection; the frame is the child's answer."},
		{"A child that dies in the middle of a call", "The tool is not annotated as safe to repeat, so the caller hears that the outcome is unknown. The breaker, whose threshold is 1 here, opens."},
		{"A call while the breaker is open", "It is refused at once."},
		{"The probe of the half-open breaker", "The cooldown is over. One call passes, a new child is started for it, and its answer closes the breaker."},
		{"Eviction", "The pool has one place, and an idle child of another server is on it: it is evicted, its process ends, and only then is the new one spawned."},
		{"The reserve", "The one place is busy. After resPoolTimeout the reserve gives the waiter another."},
	}
	s.call("a", "echo", `{"text":"hi"}`, "")
	s.quiet()
	s.call("a", "echo", `{"text":"hi"}`, "")
	s.quiet()
	s.call("a", "crash", `{}`, messages.CodeToolExecution)
	s.quiet()
	s.call("a", "echo", `{"text":"hi"}`, messages.CodeCircuitOpen)
	s.until("the breaker is half-open", s.server("a", func(h *messages.HostServer) bool { return h.Breaker == "half-open" }))
	s.call("a", "echo", `{"text":"hi"}`, "")
	s.quiet()
	s.call("b", "echo", `{"text":"hi"}`, "")
	s.quiet()
	held := make(chan error, 1)
	holding, release := context.WithCancel(t.Context())
	defer release()
	go func() {
		_, err := s.e.Execute(holding, "b", "slow", json.RawMessage(`{"ms":600000}`), metamcp.ExecuteOptions{})
		held <- err
	}()
	s.until("b is busy", s.server("b", func(h *messages.HostServer) bool { return h.State == "ACTIVE" }))
	s.call("a", "echo", `{"text":"hi"}`, "")
	release()
	if err := <-held; !errors.Is(err, context.Canceled) {
		t.Errorf("the call that was given up: %v", err)
	}
	s.quiet()
	s.call("dead", "any", `{}`, messages.CodeConnection)
	all := s.end()

	b := traceview.NewBuilder(traceview.Limits{})
	for i := range all {
		b.Add(all[i])
	}
	trace := b.Trace()
	var shown []*traceview.Request
	for _, r := range trace.Requests {
		if r.Outcome == "" {
			t.Errorf("%s has no answer", r.Title())
		}
		if r.Tool != "slow" && r.Server != "dead" {
			shown = append(shown, r)
		}
	}
	if len(shown) != len(steps) || len(trace.Requests) != len(steps)+2 {
		t.Fatalf("%d requests are in the trace, want %d", len(trace.Requests), len(steps)+2)
	}
	for i, step := range steps {
		fmt.Fprintf(&doc, "\n## %s\n\n%s\n\n```mermaid\n%s```\n", step.title, step.text, diagram(t, shown[i]))
	}
	checkRun(t, all)
	const golden = "docs/TRACE-RUN.md"
	if *update {
		if err := os.WriteFile(golden, []byte(doc.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	compareRuns(t, sections(doc.String()), sections(string(want)))
}

// sections returns the lines of each diagram of the document, by title.
func sections(doc string) map[string][]string {
	out := map[string][]string{}
	title := "the head"
	for line := range strings.Lines(doc) {
		if t, ok := strings.CutPrefix(line, "## "); ok {
			title = strings.TrimSpace(t)
		}
		out[title] = append(out[title], strings.TrimSpace(line))
	}
	return out
}

var (
	participant = regexp.MustCompile(`^participant (\S+) as (.*)$`)
	toward      = regexp.MustCompile(`^(?:(\S+?)(?:->>|-x)|Note over )(\S+?): (.*)$`)
)

// compareRuns holds what each actor gets and does, and its order, to another
// run. Actors run at the same time, so the order between two of them is the
// scheduler's.
func compareRuns(t *testing.T, got, want map[string][]string) {
	t.Helper()
	for title := range want {
		if g, w := byActor(got[title]), byActor(want[title]); g != w {
			t.Errorf("%q is not what the document says (-update writes it anew):\n%s\nwant:\n%s", title, g, w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d sections, want %d", len(got), len(want))
	}
}

func byActor(lines []string) string {
	names, seen := map[string]string{}, map[string][]string{}
	for _, line := range lines {
		if m := participant.FindStringSubmatch(line); m != nil {
			names[m[1]] = m[2]
		} else if m := toward.FindStringSubmatch(line); m != nil {
			switch m[3] {
			case "Used", "Unused":
				continue // a call that comes soon enough finds its connection not idle yet
			case "Judged":
				continue // the index looks at a listing when it has time
			}
			to := names[m[2]]
			seen[to] = append(seen[to], names[m[1]]+" "+m[3])
		} else {
			seen[""] = append(seen[""], line)
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		fmt.Fprintf(&b, "%s:\n  %s\n", name, strings.Join(seen[name], "\n  "))
	}
	return b.String()
}

// checkRun holds a whole trace to what is always so.
func checkRun(t *testing.T, all []messages.TraceRecord) {
	t.Helper()
	asked, answered := map[uint64]int{}, map[uint64]int{}
	spawned, exited := 0, 0
	spans := map[uint64]string{}
	states := map[string]string{}
	for _, r := range all {
		switch r.Kind {
		case messages.TraceRequest:
			asked[r.Request]++
		case messages.TraceAnswer:
			answered[r.Request]++
		case "spawn":
			spawned++
		case "exit":
			exited++
		case messages.TraceDeadLetter:
			// A worker may tell of a step after its connection has ended.
			if !strings.HasPrefix(r.Type, "run") {
				t.Errorf("in the trace: %+v", r)
			}
		case messages.TraceDropped, messages.TraceFailure:
			t.Errorf("in the trace: %+v", r)
		case messages.TraceMessage:
			spans[r.Span] = r.To
			if strings.Contains(r.To, "/conn#") {
				states[r.To] = r.After
			}
		}
	}
	for id, n := range asked {
		if n != 1 || answered[id] != 1 {
			t.Errorf("request %d was made %d times and answered %d times", id, n, answered[id])
		}
	}
	if spawned == 0 || spawned != exited {
		t.Errorf("%d processes were spawned, and %d ended", spawned, exited)
	}
	for actor, state := range states {
		if state != "CLOSED" {
			t.Errorf("%s ends as %s", actor, state)
		}
	}
	for _, r := range all {
		if sender, ok := spans[r.Parent]; ok && r.Kind == messages.TraceMessage && r.From != sender {
			t.Errorf("%s comes from %s, but was sent in a handling of %s", r.Type, r.From, sender)
		}
	}
}

const traceRunHead = `
# A run, message by message

What happens to calls, as the trace shows it. A test makes this run with real children and holds its messages to this page;
` + "`metamcp trace FILE show REQUEST --mermaid`" + ` draws such diagrams of any trace. [TRACE.md](TRACE.md) says what is in them. Times
and process ids are left out. The pool has one place and one in reserve, and a breaker opens with the first failure.
`

// TestViewersBesideClose begins to view while the engine is closed, and after.
func TestViewersBesideClose(t *testing.T) {
	t.Parallel()
	s := newScripted(t, map[string][]string{"a": nil}, nil)
	const views = 200
	channels := make(chan (<-chan messages.TraceRecord), views)
	go func() {
		defer close(channels)
		for range views {
			c, err := s.e.WatchTrace(context.Background())
			if err != nil {
				t.Error(err)
				return
			}
			channels <- c
		}
	}()
	s.close()
	limit := time.After(time.Minute)
	for c := range channels {
		for open := true; open; {
			select {
			case _, open = <-c:
			case <-limit:
				t.Fatal("a viewer's channel is not closed")
			}
		}
	}
}
