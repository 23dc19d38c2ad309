package traceview_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/traceview"
	"github.com/metamcp/metamcp/messages"
)

func TestRequests(t *testing.T) {
	trace := read(t, sample().text(t))
	for i, want := range []struct {
		server, tool, outcome string
		failed                bool
	}{{"demo", "echo", "ok", false}, {"github", "list_issues", "TOOL_EXECUTION_TIMEOUT", true}} {
		r := trace.Requests[i]
		if r.Server != want.server || r.Tool != want.tool || r.Outcome != want.outcome || r.Failed != want.failed {
			t.Errorf("request %s: %s/%s %s %v", r.Name, r.Server, r.Tool, r.Outcome, r.Failed)
		}
		if r.Duration != 21*ms+30*us || r.Messages != 12 || r.Events != 5 {
			t.Errorf("request %s: %s, %d messages, %d events", r.Name, r.Duration, r.Messages, r.Events)
		}
		// It ran 140µs, of which 44µs were those of the message within it.
		if h := r.SlowestHop(); h.Type != "Frame" || h.Self != 96*us || h.Cost() != 104*us {
			t.Errorf("request %s: slowest is %s, itself %s, cost %s", r.Name, h.Type, h.Self, h.Cost())
		}
	}
	if own := trace.Find("host"); own == nil || own.Messages != 1 || own.Outcome != "" {
		t.Errorf("the host's own work: %+v", own)
	}
}

func TestOutcomes(t *testing.T) {
	record := func(change func(*messages.TraceRecord)) messages.TraceRecord {
		r := messages.TraceRecord{V: 2, Time: epoch, Kind: messages.TraceMessage, Request: 1, To: "metamcp/pool/breaker/a~b~2", Type: "Call"}
		change(&r)
		return r
	}
	for _, test := range []struct {
		name    string
		change  func(*messages.TraceRecord)
		outcome string
		failed  bool
	}{
		{"no answer", func(*messages.TraceRecord) {}, traceview.OutcomeOpen, false},
		{"version 1", func(r *messages.TraceRecord) { r.V = 1 }, traceview.OutcomeUnknown, false},
		{"panic", func(r *messages.TraceRecord) { r.Outcome = "panic" }, traceview.OutcomeOpen, true},
		{"ok", func(r *messages.TraceRecord) { r.Kind, r.Outcome = messages.TraceAnswer, "ok" }, "ok", false},
		{"tool error", func(r *messages.TraceRecord) { r.Kind, r.Outcome = messages.TraceAnswer, "tool-error" }, "tool-error", true},
		{"dead letter", func(r *messages.TraceRecord) { r.Kind = messages.TraceDeadLetter }, traceview.OutcomeOpen, true},
		{"failure", func(r *messages.TraceRecord) { r.Kind = messages.TraceFailure }, traceview.OutcomeOpen, true},
	} {
		b := traceview.NewBuilder(traceview.Limits{})
		b.Add(record(test.change))
		if r := b.Trace().Requests[0]; r.Outcome != test.outcome || r.Failed != test.failed || r.Server != "a~b" {
			t.Errorf("%s: %q, failed %v, server %q", test.name, r.Outcome, r.Failed, r.Server)
		}
	}
	text := `{"v":1,"time":"2026-03-04T05:06:07Z","kind":"message","request":1,"to":"a","type":"Call","panic":true}`
	if r := read(t, []byte(text)).Requests[0]; !r.Failed {
		t.Error("a panic of version 1 is not told")
	}
}

// Earlier builds wrote a late answer to what the host itself had asked with the id that
// the server was given: it is in no list of requests.
func TestOwnNumbersAreNoRequests(t *testing.T) {
	b := traceview.NewBuilder(traceview.Limits{})
	b.Add(messages.TraceRecord{V: 2, Time: epoch, Kind: messages.TraceRequest, Request: 1<<47 - 1, Tool: "t"})
	b.Add(messages.TraceRecord{V: 2, Time: epoch, Kind: "late", Request: 1<<52 + 3, To: "metamcp/pool/breaker/a~1/conn#1"})
	trace := b.Trace()
	if len(trace.Requests) != 1 || trace.Requests[0].ID != 1<<47-1 || trace.Find("4503599627370499") != nil {
		t.Errorf("%d requests, want that of the client alone", len(trace.Requests))
	}
	if own := trace.Find("host"); own == nil || own.Events != 1 {
		t.Errorf("the host's own work: %+v", own)
	}
}

// Spans that go in circles, or name what is not there, end nothing.
func TestCrookedSpans(t *testing.T) {
	b := traceview.NewBuilder(traceview.Limits{})
	for i := range uint64(200) {
		b.Add(messages.TraceRecord{V: 2, Time: epoch, Kind: messages.TraceMessage, Span: i + 1, Parent: i%100 + 2, To: "a", From: "a", Type: "T"})
		b.Add(messages.TraceRecord{V: 2, Time: epoch, Kind: "lease", Span: 7777, To: "a"})
	}
	b.Add(messages.TraceRecord{V: 2, Time: epoch, Kind: messages.TraceMessage, Request: 1, Span: 500, Parent: 500, To: "a", From: "a", Type: "T"})
	trace := b.Trace()
	if trace.Find("1") == nil || len(trace.Own) != 1 {
		t.Errorf("%d requests, %d of the host", len(trace.Requests), len(trace.Own))
	}
	renderAll(t, trace)
}

func TestFilters(t *testing.T) {
	trace := read(t, sample().text(t))
	for _, test := range []struct {
		name   string
		filter traceview.Filter
		want   string
	}{
		{"all", traceview.Filter{}, "1 2"},
		{"server", traceview.Filter{Server: "DEMO"}, "1"},
		{"glob of a server", traceview.Filter{Server: "git*"}, "2"},
		{"a part is no server", traceview.Filter{Server: "git"}, ""},
		{"part of an actor", traceview.Filter{Actor: "github~1/conn"}, "2"},
		{"glob of an actor", traceview.Filter{Actor: "metamcp/*/demo*"}, "1"},
		{"not all of an actor", traceview.Filter{Actor: "demo*"}, ""},
		{"type", traceview.Filter{Type: "acquire"}, "1 2"},
		{"kind", traceview.Filter{Type: "spawn"}, "1 2"},
		{"type at another actor", traceview.Filter{Type: "Acquire", Actor: "session"}, ""},
		{"request", traceview.Filter{Request: "#2"}, "2"},
		{"errors", traceview.Filter{Errors: true}, "2"},
		{"since", traceview.Filter{Since: epoch.Add(25 * ms)}, "2"},
		{"until", traceview.Filter{Until: epoch.Add(25 * ms)}, "1"},
		{"broken glob", traceview.Filter{Server: "[a"}, ""},
	} {
		var names []string
		for _, r := range trace.Select(test.filter) {
			names = append(names, r.Name)
		}
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	narrow := traceview.Filter{Type: "Frame"}.Narrow(trace.Find("1"))
	if len(narrow.Records) != 2 || narrow.SlowestHop().Type != "Frame" || narrow.Messages != 12 {
		t.Errorf("narrowed: %d records", len(narrow.Records))
	}
}

// script invents a script with one call to each server; it waits 40ms for its
// process.
func script(b *traceview.Builder, id uint64, outcome, detail string, servers ...string) {
	run := "metamcp/sandbox/run~1"
	add := func(r messages.TraceRecord) {
		r.V, r.Request, r.To = 2, id, run
		b.Add(r)
	}
	add(messages.TraceRecord{Time: epoch, Kind: messages.TraceRequest, Tool: "mcp_execute"})
	for _, server := range servers {
		add(messages.TraceRecord{Time: epoch.Add(45 * ms), Kind: messages.TraceCall, Server: server, Tool: "echo"})
		add(messages.TraceRecord{Time: epoch.Add(47 * ms), Kind: messages.TraceReturn, Server: server, Tool: "echo", Outcome: "ok", RanNs: (2 * ms).Nanoseconds()})
	}
	add(messages.TraceRecord{
		Time: epoch.Add(50 * ms), Kind: messages.TraceAnswer, Tool: "mcp_execute", Outcome: outcome, Detail: detail,
		RanNs: (50 * ms).Nanoseconds(), WaitNs: (40 * ms).Nanoseconds(),
	})
}

func TestScripts(t *testing.T) {
	b := traceview.NewBuilder(traceview.Limits{})
	script(b, 1, "ok", "", "files", "github", "files")
	script(b, 2, "SANDBOX_ERROR", "timeout: the script took longer than 2m0s", "github")
	script(b, 3, "SANDBOX_ERROR", "the process of the sandbox does not start: no memory")
	script(b, 4, "TOOL_EXECUTION_ERROR", "exception: it broke", "files")
	trace := b.Trace()
	for server, want := range map[string]string{"FILES": "1 4", "git*": "1 2", "mcp_execute": "", "*": "1 2 3 4"} {
		var names []string
		for _, r := range trace.Select(traceview.Filter{Server: server}) {
			names = append(names, r.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("server %s: requests %q, want %q", server, got, want)
		}
	}
	for i, want := range []string{"", "timeout", "", "exception"} {
		if r := trace.Requests[i]; r.Failure != want || r.Server != "" || r.Duration != 50*ms || r.Waited != 40*ms {
			t.Errorf("request %s: failure %q, server %q, took %s, waited %s", r.Name, r.Failure, r.Server, r.Duration, r.Waited)
		}
	}
	var list, show bytes.Buffer
	style := traceview.Style{Width: 120, Location: time.UTC}
	if err := errors.Join(traceview.WriteList(&list, trace.Requests, style), traceview.WriteSequence(&show, trace.Requests[1], style)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"mcp_execute (3 calls)", "mcp_execute (1 call)", "mcp_execute (0 calls)", "SANDBOX_ERROR (timeout)", "TOOL_EXECUTION_ERROR (exception)"} {
		if !strings.Contains(list.String(), want) {
			t.Errorf("the list does not say %q:\n%s", want, &list)
		}
	}
	if want := "took 50.0ms, 40.0ms of it waiting for a process  outcome SANDBOX_ERROR (timeout)"; !strings.Contains(show.String(), want) {
		t.Errorf("the heading does not say %q:\n%s", want, &show)
	}
}

func TestParseTime(t *testing.T) {
	trace := read(t, sample().text(t))
	end := trace.End()
	local := end.Local()
	for text, want := range map[string]time.Time{
		"5m":                     end.Add(-5 * time.Minute),
		"0s":                     end,
		"2026-03-04T05:06:07Z":   epoch,
		local.Format("15:04:05"): time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), 0, time.Local),
		"2026-01-02":             time.Date(2026, 1, 2, 0, 0, 0, 0, time.Local),
	} {
		if got, err := trace.ParseTime(text); err != nil || !got.Equal(want) {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "yesterday", "-5m", "25:00:00"} {
		if got, err := trace.ParseTime(text); err == nil {
			t.Errorf("%q: %s", text, got)
		}
	}
}

// The shape is that of the Trace Event format: slices of a thread lie within
// or beside each other, async slices and flows have both ends.
func TestChrome(t *testing.T) {
	trace := read(t, sample().text(t))
	var b bytes.Buffer
	if err := traceview.WriteChrome(&b, trace, append(trace.Requests, trace.Own...)); err != nil {
		t.Fatal(err)
	}
	var file struct {
		TraceEvents []struct {
			Name, Cat, Ph, ID, S, Bp string
			Ts, Dur                  *float64
			Pid, Tid                 int
			Args                     map[string]any
		}
	}
	if err := json.Unmarshal(b.Bytes(), &file); err != nil {
		t.Fatal(err)
	}
	threads := map[int]string{}
	open := map[string]float64{}
	count := map[string]int{}
	type slice struct{ from, to float64 }
	slices := map[int][]slice{}
	for _, e := range file.TraceEvents {
		count[e.Ph]++
		if e.Ph == "M" {
			if name, _ := e.Args["name"].(string); e.Name == "thread_name" {
				threads[e.Tid] = name
			} else if e.Name == "process_name" && !strings.Contains(name, "pid 4711") {
				t.Errorf("the process is %q", name)
			}
			continue
		}
		if e.Ts == nil || *e.Ts < 0 || e.Pid != 1 || threads[e.Tid] == "" {
			t.Errorf("%+v has no time or no thread", e)
			continue
		}
		switch e.Ph {
		case "X":
			if e.Dur == nil {
				t.Errorf("%s has no duration", e.Name)
				continue
			}
			slices[e.Tid] = append(slices[e.Tid], slice{*e.Ts, *e.Ts + *e.Dur})
		case "b", "s":
			open[e.Cat+e.ID] = *e.Ts
		case "e", "f":
			if begin, ok := open[e.Cat+e.ID]; !ok || *e.Ts < begin || e.Ph == "f" && e.Bp != "e" {
				t.Errorf("%s %s ends without a begin", e.Name, e.ID)
			}
			delete(open, e.Cat+e.ID)
		case "i":
			if e.S != "t" {
				t.Errorf("%s is no instant of its thread", e.Name)
			}
		default:
			t.Errorf("phase %q", e.Ph)
		}
	}
	if len(open) > 0 || count["X"] != 25 || count["s"] != 14 || count["i"] != 14 || count["b"] != count["e"] {
		t.Errorf("%d open, counts %v", len(open), count)
	}
	for tid, list := range slices {
		if threads[tid] == "edge" {
			t.Error("something was handled at the edge")
		}
		for i := range list {
			for j := range list[:i] {
				a, b := list[j], list[i]
				if a.from < b.from && b.from < a.to && b.to > a.to {
					t.Errorf("slices of %s cross: %v %v", threads[tid], a, b)
				}
			}
		}
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		math.MinInt64: "-2562047h47m16.854775807s",
		0:             "0ns", 999: "999ns", 1500: "1.50µs", 99_960: "100µs", 9_996: "10.0µs", 12 * ms: "12.0ms", 1500 * ms: "1.50s", 90 * time.Second: "1m30s", -5: "-5ns",
	} {
		if got := traceview.Duration(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}

// Arguments and results are shown where the host wrote them, and are as
// hostile as any other text.
func TestPayloads(t *testing.T) {
	g := sample()
	for i := range g.records {
		if g.records[i].Kind == messages.TraceRequest {
			g.records[i].Payload = json.RawMessage(`{"text":"h\u00e9 \u001b</script>` + strings.Repeat("x", 9000) + `\u202e"}`)
		}
	}
	for name, text := range renderAll(t, read(t, g.text(t))) {
		if name == "html" && (!strings.Contains(text, `{\"text\":\"h`) || strings.Count(text, "</script>") != 2 || strings.Contains(text, strings.Repeat("x", 5000))) {
			t.Error("the page has no payload, or one that is not made harmless")
		}
		if name == "sequence" && !strings.Contains(text, `17 bytes: {"text`) {
			t.Errorf("the diagram has no payload:\n%s", text)
		}
	}
}
