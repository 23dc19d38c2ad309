package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

func sandboxSettings() SandboxSettings {
	return SandboxSettings{
		Limits: messages.ScriptLimits{
			Wall: time.Minute, CodeBytes: 1000, HeapBytes: 1 << 20, OutputBytes: 1 << 20, Calls: 100, Concurrent: 8,
		},
		Concurrent: 2, Idle: time.Hour,
	}
}

// runPort is the port of a script's caller.
type runPort struct {
	mu      sync.Mutex
	lines   []string
	calls   []int
	reports []*messages.RunReport
	ended   chan struct{} // closed at the first report
}

// Said implements messages.RunPort.
func (p *runPort) Said(l messages.ConsoleLine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, l.Text)
}

// Progressed implements messages.RunPort.
func (p *runPort) Progressed(calls int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, calls)
}

// Ended implements messages.RunPort.
func (p *runPort) Ended(r *messages.RunReport) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reports = append(p.reports, r); len(p.reports) == 1 {
		close(p.ended)
	}
}

func (p *runPort) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.reports)
}

type pendingRun struct {
	*runPort
	run *messages.Run
}

func (r *rig) discover(ctx context.Context, args json.RawMessage, only []string) (json.RawMessage, *messages.Error) {
	return r.search(ctx, args, only)
}

// script starts a script, whose code names a program of the fake.
func (r *rig) script(code string, change ...func(run *messages.Run)) *pendingRun {
	p := &runPort{ended: make(chan struct{})}
	id := lastCall.Add(1)
	run := &messages.Run{Meta: messages.Meta{Trace: id}, ID: id, Code: code, Cancelled: &atomic.Bool{}, Reply: p}
	for _, f := range change {
		f(run)
	}
	r.runs = append(r.runs, p)
	r.e.Run(run)
	return &pendingRun{p, run}
}

func (r *rig) report(p *pendingRun) *messages.RunReport {
	r.t.Helper()
	limit := time.NewTimer(soon)
	defer limit.Stop()
	select {
	case <-p.ended:
	case <-limit.C:
		r.t.Fatalf("no end of script %s", p.run.Code)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reports[0]
}

// valueOf waits for the value of a script.
func (r *rig) valueOf(p *pendingRun) string {
	r.t.Helper()
	rep := r.report(p)
	if rep.Err != nil || rep.Outcome.Failure != nil {
		r.t.Fatalf("script %s: error %v, outcome %+v", p.run.Code, rep.Err, rep.Outcome)
	}
	return string(rep.Outcome.Value)
}

func (r *rig) refusedRun(p *pendingRun, code messages.Code) *messages.Error {
	r.t.Helper()
	rep := r.report(p)
	if rep.Err == nil || rep.Err.Code != code {
		r.t.Fatalf("script %s: want %s, got %v and %+v", p.run.Code, code, rep.Err, rep.Outcome)
	}
	return rep.Err
}

func (r *rig) failedRun(p *pendingRun, kind messages.FailureKind) *messages.ScriptFailure {
	r.t.Helper()
	rep := r.report(p)
	if rep.Outcome == nil || rep.Outcome.Failure == nil || rep.Outcome.Failure.Kind != kind {
		r.t.Fatalf("script %s: want failure %s, got %v and %+v", p.run.Code, kind, rep.Err, rep.Outcome)
	}
	return rep.Outcome.Failure
}

func outcomes(r *messages.RunReport) []string {
	var out []string
	for _, c := range r.Calls {
		out = append(out, c.Server+"/"+c.Tool+" "+c.Outcome)
	}
	return out
}

// A call of a script is a call like every other: validated, counted, told, in
// flight at the child, with an id of its own and the request of its script.
func TestScriptCalls(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	var mu sync.Mutex
	var told []CallReport
	r.e.observer.told = func(c *CallReport) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, *c)
	}
	r.s.programs["calls"] = func(s *fakeScript) {
		first := s.call("a", "do", `{}`)
		s.log("first")
		bad := s.call("a", "typed", `{"n":"x"}`)
		missing := s.call("a", "tydep", `{}`)
		unknown := s.call("b", "do", `{}`)
		s.value(fmt.Sprintf(`[%s,%q,%q,%q]`, first.Value, bad.Err.Code, missing.Err.Code, unknown.Err.Code))
	}
	begun := 0
	p := r.script("calls", func(run *messages.Run) { run.Begin = func(*messages.Call) { begun++ } })
	if got, want := r.valueOf(p), `["a#1","VALIDATION_ERROR","TOOL_NOT_FOUND","SERVER_NOT_FOUND"]`; got != want {
		t.Errorf("value %s, want %s", got, want)
	}
	rep := r.report(p)
	want := []string{"a/do ok", "a/typed VALIDATION_ERROR", "a/tydep TOOL_NOT_FOUND", "b/do SERVER_NOT_FOUND"}
	if got := outcomes(rep); !slices.Equal(got, want) {
		t.Errorf("calls %q, want %q", got, want)
	}
	if !slices.Equal(p.lines, []string{"first"}) || !slices.Equal(p.calls, []int{1, 2, 3, 4}) || begun != 4 {
		t.Errorf("console %q, progress %v, %d calls begun", p.lines, p.calls, begun)
	}
	if n := len(r.f.lines("a", methodToolsCall)); n != 1 {
		t.Errorf("the child got %d calls, want 1", n)
	}
	if c := r.e.Counts(); c.Total != 4 || c.Failed != 3 || c.InFlight != 0 {
		t.Errorf("counts %+v", c)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, c := range told {
		if c.Call.Trace != p.run.Trace || c.Call.ID == p.run.ID {
			t.Errorf("call %d of request %d, want request %d and an id of its own", c.Call.ID, c.Call.Trace, p.run.Trace)
		}
	}
	if len(told) != 4 {
		t.Errorf("%d calls were told, want 4", len(told))
	}
}

// What a tool reports of itself is counted apart from what failed here.
func TestToolErrorsAreCounted(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.s.programs["fails"] = func(s *fakeScript) {
		s.call("a", "do", `{"do":"iserror"}`)
		s.call("a", "do", `{"do":"rpcerror"}`)
		s.call("a", "do", `{"do":"say \"result\":{\"isError\":false,\"content\":[]}"}`)
		s.call("a", "nothing", `{}`)
		s.value("1")
	}
	r.valueOf(r.script("fails"))
	if c := r.e.Counts(); c.Total != 4 || c.ToolErrors != 2 || c.Failed != 1 {
		t.Errorf("counts %+v", c)
	}
	for result, want := range map[string]bool{
		`{"isError":true}`: true, `{"isError" : true,"content":[]}`: true, `{"isError":false}`: false, `{"content":[{"isError":true}]}`: false,
		`{"content":[{"isError":false}],"isError":true}`: true, `{"content":[{"type":"text","text":"\"isError\":true"}]}`: false, `{}`: false,
	} {
		if got := isToolError(json.RawMessage(result)); got != want {
			t.Errorf("%s is an error: %t", result, got)
		}
	}
}

func TestScriptValues(t *testing.T) {
	call := &messages.Call{Server: "s", Tool: "t"}
	many := `{"content":[` + strings.Repeat("1,", 1_000_000) + `1]}`
	for name, c := range map[string]struct{ result, want string }{
		"structured":             {`{"content":[{"type":"text","text":"x"}],"structuredContent":{"a":1}}`, `{"a":1}`},
		"structured null":        {`{"content":[{"type":"text","text":"x"}],"structuredContent":null}`, `"x"`},
		"text":                   {`{"content":[{"type":"text","text":"a \"b\""}]}`, `"a \"b\""`},
		"JSON text":              {`{"content":[{"type":"text","text":" {\"a\": [1]}\n"}]}`, ` {"a": [1]}` + "\n"},
		"a number":               {`{"content":[{"type":"text","text":"42"}]}`, `42`},
		"an id too long for one": {`{"content":[{"type":"text","text":"12345678901234567890"}]}`, `"12345678901234567890"`},
		"a number with zeros":    {`{"content":[{"type":"text","text":"1.50"}]}`, `"1.50"`},
		"several":                {`{"content":[{"type":"text","text":"x"},{"type":"text","text":"[1]"}]}`, `["x",[1]]`},
		"an image":               {`{"content":[{"type":"image","data":"AA==","mimeType":"image/png"}]}`, `{"type":"image","data":"AA==","mimeType":"image/png"}`},
		"nothing":                {`{"content":[]}`, `null`},
		"no content":             {`{}`, `null`},
		"null for content":       {`{"content":null}`, `null`},
		"too many":               {many, many},
		"too many, structured":   {strings.TrimSuffix(many, "}") + `,"structuredContent":7}`, "7"},
		"no tool result":         {`{"content":"x"}`, `{"content":"x"}`},
	} {
		got, err := scriptValue(&messages.Answer{Result: json.RawMessage(c.result)}, call, false, 0)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: value %.200s, error %v, want %.200s", name, got, err, c.want)
		}
		if raw, err := scriptValue(&messages.Answer{Result: json.RawMessage(c.result)}, call, true, 0); err != nil || string(raw) != c.result {
			t.Errorf("%s, raw: %.200s, error %v", name, raw, err)
		}
	}
	for name, c := range map[string]struct {
		answer messages.Answer
		most   int
		want   messages.ScriptError
	}{
		"the tool's own": {messages.Answer{Result: json.RawMessage(`{"content":[{"type":"text","text":"no such file"}],"isError":true}`)}, 0,
			messages.ScriptError{Code: "TOOL_EXECUTION_ERROR", Message: "no such file"}},
		"without a word": {messages.Answer{Result: json.RawMessage(`{"content":[],"isError":true}`)}, 0,
			messages.ScriptError{Code: "TOOL_EXECUTION_ERROR", Message: "the tool reports an error and says nothing more"}},
		"with content that is none": {messages.Answer{Result: json.RawMessage(`{"content":"no such file","isError":true}`)}, 0,
			messages.ScriptError{Code: "TOOL_EXECUTION_ERROR", Message: `{"content":"no such file","isError":true}`}},
		"with content that is none and structured": {messages.Answer{Result: json.RawMessage(`{"content":{},"structuredContent":{"why":"x"},"isError":true}`)}, 0,
			messages.ScriptError{Code: "TOOL_EXECUTION_ERROR", Message: `{"why":"x"}`}},
		"the server's": {messages.Answer{RPCError: json.RawMessage(`{"code":-32602,"message":"bad"}`)}, 0,
			messages.ScriptError{Code: "TOOL_EXECUTION_ERROR", Message: "bad"}},
		"too long": {messages.Answer{Result: json.RawMessage(`{"content":[]}`)}, 10,
			messages.ScriptError{Code: "SANDBOX_ERROR", Message: "the result has 14 bytes, more than the 10 that a script can take; the tool has done its work"}},
		"ours": {messages.Answer{Err: &messages.Error{Code: messages.CodeCircuitOpen, Server: "s", Tool: "t", Class: messages.ClassOffline, Message: "m", Retryable: true, RetryAfter: time.Second}}, 0,
			messages.ScriptError{Code: "CIRCUIT_OPEN", Class: "offline", Message: "m", Retryable: true, RetryAfterMs: 1000}},
	} {
		_, err := scriptValue(&c.answer, call, false, c.most)
		if err == nil || err.Code != c.want.Code || err.Message != c.want.Message || err.Class != c.want.Class ||
			err.Retryable != c.want.Retryable || err.RetryAfterMs != c.want.RetryAfterMs || err.Server != "s" || err.Tool != "t" {
			t.Errorf("%s: %+v, want %+v", name, err, c.want)
		}
	}
}

// Whatever ends a script ends its calls and its process, and its caller hears
// exactly once.
func TestScriptEndsWithItsCalls(t *testing.T) {
	for name, end := range map[string]func(r *rig, p *pendingRun){
		"cancelled": func(r *rig, p *pendingRun) {
			r.e.CancelRun(p.run, "the user changed her mind")
			if err := r.refusedRun(p, messages.CodeCancelled); !strings.Contains(err.Message, "changed her mind") {
				r.t.Errorf("message %q", err.Message)
			}
		},
		"cancelled twice": func(r *rig, p *pendingRun) {
			r.e.CancelRun(p.run, "one")
			r.e.CancelRun(p.run, "two")
			r.refusedRun(p, messages.CodeCancelled)
		},
		"the worker dies": func(r *rig, p *pendingRun) {
			for _, w := range r.s.workers() {
				if w.busy() {
					w.Kill()
				}
			}
			r.failedRun(p, messages.FailureCrashed)
		},
		"the client goes": func(r *rig, p *pendingRun) {
			r.e.sys.Send(r.e.sandbox, &sessionOver{p.run.Session})
			r.refusedRun(p, messages.CodeCancelled)
		},
		"its time is over": func(r *rig, p *pendingRun) {
			if f := r.failedRun(p, messages.FailureTimeout); !strings.Contains(f.Message, "300ms") {
				r.t.Errorf("message %q does not name the limit", f.Message)
			}
		},
		"the host closes": func(r *rig, p *pendingRun) {
			r.close()
			r.refusedRun(p, messages.CodeShuttingDown)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.add("a", nil, nil)
			r.s.programs["silent"] = func(s *fakeScript) {
				s.ask(messages.ScriptAsk{Kind: messages.AskCall, Server: "a", Tool: "do", Args: json.RawMessage(`{"do":"silent"}`)})
				s.ask(messages.ScriptAsk{Kind: messages.AskCall, Server: "a", Tool: "do", Args: json.RawMessage(`{"do":"silent"}`)})
				s.hang()
			}
			p := r.script("silent", func(run *messages.Run) {
				run.Session = 7
				if strings.Contains(name, "time") {
					run.Timeout = 300 * time.Millisecond
				}
			})
			r.got("a", methodToolsCall, 2)
			end(r, p)
			if !r.down {
				r.got("a", methodCancelled, 2)
				// One worker is kept ready; the one of the script is gone.
				r.s.until(t, "the worker of the script is gone", func() bool { return r.s.lives() <= 1 && r.s.scripts() == 0 })
				if got := outcomes(r.report(p)); !slices.Equal(got, []string{"a/do CANCELLED", "a/do CANCELLED"}) {
					t.Errorf("calls %q", got)
				}
				r.s.until(t, "no call is in flight", func() bool { return r.e.Counts().InFlight == 0 })
				r.s.until(t, "the actor of the script is gone", func() bool {
					return !slices.ContainsFunc(r.e.Actors(), func(a messages.ActorStatus) bool { return strings.Contains(a.ID, "run~") })
				})
			}
		})
	}
}

// A script that returns without having awaited its calls ends them.
func TestScriptThatDoesNotAwait(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	release := make(chan struct{})
	r.s.programs["hasty"] = func(s *fakeScript) {
		s.ask(messages.ScriptAsk{Kind: messages.AskCall, Server: "a", Tool: "do", Args: json.RawMessage(`{"do":"silent"}`)})
		<-release
		s.value("1")
	}
	p := r.script("hasty")
	r.got("a", methodToolsCall, 1)
	close(release)
	if v := r.valueOf(p); v != "1" {
		t.Errorf("value %s", v)
	}
	r.got("a", methodCancelled, 1)
}

// Scripts over the number that may run wait in the order in which they came;
// what waits can be cancelled and its time runs.
func TestScriptsWaitForTheirTurn(t *testing.T) {
	r := newRig(t, nil)
	release := make(chan struct{})
	r.s.programs["wait"] = func(s *fakeScript) {
		select {
		case <-release:
			s.value("1")
		case <-s.w.killed:
		}
	}
	var all []*pendingRun
	var ids []uint64
	for range 64 {
		p := r.script("wait")
		all, ids = append(all, p), append(ids, p.run.ID)
	}
	r.s.until(t, "two scripts run", func() bool { return r.s.scripts() == 2 })
	if st := r.e.SandboxStatus(); st.Running != 2 || st.Waiting != 62 || len(st.Workers) != 3 {
		r.s.until(t, "two run, 62 wait, and one worker is ready", func() bool {
			st = r.e.SandboxStatus()
			return st.Running == 2 && st.Waiting == 62 && len(st.Workers) == 3
		})
	}
	cancelled, late := r.script("wait"), r.script("wait", func(run *messages.Run) { run.Timeout = 50 * time.Millisecond })
	r.e.CancelRun(cancelled.run, "")
	r.refusedRun(cancelled, messages.CodeCancelled)
	if f := r.failedRun(late, messages.FailureTimeout); !strings.Contains(f.Message, "did not begin") {
		t.Errorf("message %q", f.Message)
	}
	close(release)
	for _, p := range all {
		r.valueOf(p)
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if !slices.Equal(r.s.order, ids) {
		t.Errorf("scripts came in the order %v and began in the order %v", ids, r.s.order)
	}
	if r.s.busiest > 2 {
		t.Errorf("%d scripts ran at once, want 2", r.s.busiest)
	}
	if r.s.starts < 64 { // with the lock
		t.Errorf("%d workers for 64 scripts, of which none takes two", r.s.starts)
	}
}

// givenScript is a worker that keeps what it is to run.
type givenScript struct {
	SandboxWorker
	script *messages.Script
}

func (w *givenScript) Run(_ uint64, s *messages.Script) error {
	w.script = s
	return nil
}

// A script has less time by what it waited above the time that costs nothing, and
// no less at that bound; one that has no time left does not begin.
func TestScriptsWaitForNothingAtFirst(t *testing.T) {
	for waited, want := range map[time.Duration]time.Duration{
		freeWait - time.Second:           4 * time.Second,
		freeWait + 100*time.Millisecond:  3900 * time.Millisecond,
		freeWait + 3*time.Second:         time.Second,
		freeWait + 3990*time.Millisecond: 0,
	} {
		t.Run(waited.String(), func(t *testing.T) {
			r := newRig(t, nil)
			w := &givenScript{}
			port := &runPort{ended: make(chan struct{})}
			r.within(func(ctx *kernel.Context) {
				over := make(chan struct{})
				begin := func(ctx *kernel.Context) {
					defer close(over)
					a := newRunActor(r.e, &messages.Run{Timeout: 4 * time.Second, Reply: port}, sandboxSettings())
					defer a.over()
					a.asked, a.deadline = a.asked.Add(-waited), a.deadline.Add(-waited)
					a.self, a.due = ctx.Self(), ctx.After(time.Hour, &runDue{})
					a.onBegin(ctx, &runBegin{worker: w})
				}
				if _, err := ctx.Spawn("run", func() kernel.Actor { return &listener{spawn: begin} }); err != nil {
					t.Error(err)
					return
				}
				<-over
			})
			if want == 0 {
				if w.script != nil || port.count() != 1 {
					t.Errorf("the worker got %+v, and %d ends were told", w.script, port.count())
				}
				return
			}
			if w.script == nil {
				t.Fatal("it did not begin")
			}
			// The test itself takes some of the time.
			if l := w.script.Limits; l.Wall > want || l.Wall < want-time.Second || l.Asked != 4*time.Second {
				t.Errorf("it has %v of %v, want %v of 4s", l.Wall, l.Asked, want)
			}
		})
	}
}

func TestSandboxIsFull(t *testing.T) {
	r := newRig(t, nil)
	r.s.programs["hang"] = func(s *fakeScript) { s.hang() }
	for range 2 {
		r.script("hang")
	}
	r.s.until(t, "two scripts run", func() bool { return r.s.scripts() == 2 })
	for range maxWaitingRuns {
		r.script("hang")
	}
	err := r.refusedRun(r.script("hang"), messages.CodeSandbox)
	if !err.Retryable || !strings.Contains(err.Message, fmt.Sprint(maxWaitingRuns)) || err.Hint == "" {
		t.Errorf("error %+v", err)
	}
}

// No worker takes a second script, and none is started beside one that has just
// begun.
func TestOneScriptAWorker(t *testing.T) {
	r := newRig(t, nil)
	var took []int
	r.s.programs["who"] = func(s *fakeScript) { took = append(took, s.w.PID()); s.value("1") }
	for range 5 {
		r.valueOf(r.script("who"))
	}
	slices.Sort(took)
	if len(slices.Compact(took)) != 5 {
		t.Errorf("five scripts ran in the workers %v", took)
	}
	r.s.until(t, "one worker is ready, and no other is left", func() bool {
		workers := r.e.SandboxStatus().Workers
		return len(workers) == 1 && workers[0].State == "ready" && r.s.lives() == 1
	})
	began := make(chan struct{})
	r.s.programs["long"] = func(s *fakeScript) { close(began); s.hang() }
	p := r.script("long")
	<-began
	if n := r.s.lives(); n != 1 {
		t.Errorf("%d workers live right after a script began", n)
	}
	r.s.until(t, "the next worker is ready", func() bool { return r.s.lives() == 2 })
	r.e.CancelRun(p.run, "")
}

// TestTheEndOfTheSandboxIsExpected: its workers end after it has stopped, and
// that loses nothing.
func TestTheEndOfTheSandboxIsExpected(t *testing.T) {
	r := newRig(t, nil)
	r.s.programs["one"] = func(s *fakeScript) { s.value("1") }
	r.s.programs["hang"] = func(s *fakeScript) { s.hang() }
	r.valueOf(r.script("one"))
	running := r.script("hang")
	r.s.until(t, "a script runs and the next worker is ready", func() bool {
		return r.s.scripts() == 1 && slices.ContainsFunc(r.e.SandboxStatus().Workers, func(w messages.SandboxWorker) bool { return w.State == "ready" })
	})
	r.close()
	r.refusedRun(running, messages.CodeShuttingDown)
	if n := r.e.sys.DeadLetters(); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// TestNoSpareBesideAStart: a script that waits for its worker to start does not share the
// processors with the start of the next one.
func TestNoSpareBesideAStart(t *testing.T) {
	r := newRig(t, nil)
	r.s.unready = func(start int) bool { return start == 1 }
	r.s.programs["one"] = func(s *fakeScript) { s.value("1") }
	p := r.script("one")
	r.s.until(t, "the first worker has been started", func() bool { return r.s.started() > 0 })
	r.e.ConfigureSandbox(sandboxSettings()) // after which the sandbox looks again at what it lacks
	r.e.KeepResult(0, nil)                  // and has looked
	if n := r.s.started(); n != 1 {
		t.Errorf("%d workers were started for one script", n)
	}
	r.e.CancelRun(p.run, "")
}

// One worker is ready when the next script comes, and goes when none comes for
// long.
func TestSpareWorker(t *testing.T) {
	r := newRig(t, nil)
	if r.s.started() != 0 {
		t.Error("a worker was started before anybody needed one")
	}
	r.s.programs["one"] = func(s *fakeScript) { s.value("1") }
	r.valueOf(r.script("one"))
	ready := func() bool {
		st := r.e.SandboxStatus()
		return len(st.Workers) == 1 && st.Workers[0].State == "ready" && st.Workers[0].PID > 1000 && st.Workers[0].Confined.Seccomp == "fake"
	}
	r.s.until(t, "one worker is ready", ready)
	spare := r.e.SandboxStatus().Workers[0].PID
	var took int
	r.s.programs["who"] = func(s *fakeScript) { took = s.w.PID(); s.value("1") }
	r.valueOf(r.script("who"))
	if took != spare {
		t.Errorf("worker %d took the script, want the spare %d", took, spare)
	}
	r.s.until(t, "the next is ready", ready)
	settings := sandboxSettings()
	settings.Idle = time.Millisecond
	r.e.ConfigureSandbox(settings)
	r.s.until(t, "the idle worker is gone", func() bool { return r.s.lives() == 0 && len(r.e.SandboxStatus().Workers) == 0 })
	r.valueOf(r.script("one"))
}

func TestWorkersThatDoNotStart(t *testing.T) {
	broken := errors.New("no such file")
	for name, change := range map[string]func(f *fakeSandbox){
		"no process":    func(f *fakeSandbox) { f.launch = func(int) error { return broken } },
		"it ends":       func(f *fakeSandbox) { f.dies = func(int) bool { return true } },
		"it is no good": func(f *fakeSandbox) { f.programs = nil }, // refuses every script
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			change(r.s)
			p, q := r.script("x"), r.script("x")
			for _, p := range []*pendingRun{p, q} {
				if err := r.refusedRun(p, messages.CodeSandbox); !err.Retryable || err.Hint == "" {
					t.Errorf("error %+v", err)
				}
			}
			r.s.until(t, "no worker is being started", func() bool {
				st := r.e.SandboxStatus()
				return !slices.ContainsFunc(st.Workers, func(w messages.SandboxWorker) bool { return w.State == "starting" })
			})
			if r.s.started() > 12 {
				t.Errorf("%d starts", r.s.started())
			}
		})
	}
	t.Run("the second one does", func(t *testing.T) {
		r := newRig(t, nil)
		r.s.launch = func(n int) error {
			if n == 1 {
				return broken
			}
			return nil
		}
		r.s.programs["one"] = func(s *fakeScript) { s.value("1") }
		r.valueOf(r.script("one"))
	})
}

// A worker that is broken cannot ask for more than a script may, nor flood the
// host.
func TestBrokenWorker(t *testing.T) {
	t.Run("calls", func(t *testing.T) {
		r := newRig(t, nil)
		r.add("a", nil, nil)
		r.s.programs["many"] = func(s *fakeScript) {
			for range 101 {
				if s.call("a", "do", `{}`) == nil {
					return
				}
			}
			s.value("1")
		}
		f := r.failedRun(r.script("many"), messages.FailureCalls)
		if !strings.Contains(f.Message, "100") {
			t.Errorf("message %q", f.Message)
		}
	})
	t.Run("at once", func(t *testing.T) {
		r := newRig(t, nil)
		r.add("a", nil, nil)
		r.s.programs["wide"] = func(s *fakeScript) {
			for range 8 {
				s.ask(messages.ScriptAsk{Kind: messages.AskCall, Server: "a", Tool: "do", Args: json.RawMessage(`{"do":"silent"}`)})
			}
			s.answer(s.call("a", "do", `{}`))
		}
		f := r.failedRun(r.script("wide"), "exception")
		if f.Thrown == nil || f.Thrown.Code != string(messages.CodeSandbox) || !strings.Contains(f.Message, "8 calls") {
			t.Errorf("failure %+v, thrown %+v", f, f.Thrown)
		}
	})
	t.Run("console", func(t *testing.T) {
		r := newRig(t, nil)
		r.s.programs["loud"] = func(s *fakeScript) {
			for range 100 {
				s.log(strings.Repeat("x", 100_000))
			}
			s.hang()
		}
		r.failedRun(r.script("loud"), messages.FailureOutput)
	})
	t.Run("arguments", func(t *testing.T) {
		r := newRig(t, nil)
		r.add("a", nil, nil)
		for _, args := range []string{`{"a":`, `[]`, `"x"`} {
			r.s.programs[args] = func(s *fakeScript) { s.answer(s.call("a", "do", args)) }
			if f := r.failedRun(r.script(args), "exception"); f.Thrown.Code != string(messages.CodeValidation) {
				t.Errorf("%s: %+v", args, f.Thrown)
			}
		}
	})
}

func TestScriptOfSomeServers(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.add("b", nil, nil)
	var seen []string
	r.search = func(_ context.Context, args json.RawMessage, only []string) (json.RawMessage, *messages.Error) {
		if string(args) == `{"query":"bad"}` {
			return nil, &messages.Error{Code: messages.CodeValidation, Message: "bad"}
		}
		names, _ := json.Marshal(only) // strings always marshal
		return names, nil
	}
	r.s.programs["some"] = func(s *fakeScript) {
		for _, server := range s.Servers {
			seen = append(seen, server.Name)
		}
		ok, not := s.call("a", "do", `{}`), s.call("b", "do", `{}`)
		found := s.await(s.ask(messages.ScriptAsk{Kind: messages.AskDiscover, Args: json.RawMessage(`{"query":"x"}`)}))
		bad := s.await(s.ask(messages.ScriptAsk{Kind: messages.AskDiscover, Args: json.RawMessage(`{"query":"bad"}`)}))
		s.value(fmt.Sprintf(`[%s,%q,%s,%q]`, ok.Value, not.Err.Code, found.Value, bad.Err.Code))
	}
	p := r.script("some", func(run *messages.Run) { run.Only = []string{"a"} })
	if got, want := r.valueOf(p), `["a#1","SERVER_NOT_FOUND",["a"],"VALIDATION_ERROR"]`; got != want {
		t.Errorf("value %s, want %s", got, want)
	}
	if !slices.Equal(seen, []string{"a"}) {
		t.Errorf("the script saw %q", seen)
	}
	if n := r.f.started("b"); n != 0 {
		t.Error("a server that the script may not reach was started")
	}
}

// A search ends with its script.
func TestScriptCancelledWhileItSearches(t *testing.T) {
	r := newRig(t, nil)
	searching, stopped := make(chan struct{}), make(chan struct{})
	r.search = func(ctx context.Context, _ json.RawMessage, _ []string) (json.RawMessage, *messages.Error) {
		close(searching)
		<-ctx.Done()
		close(stopped)
		return nil, &messages.Error{Code: messages.CodeCancelled, Message: "over"}
	}
	r.s.programs["search"] = func(s *fakeScript) {
		s.await(s.ask(messages.ScriptAsk{Kind: messages.AskDiscover, Args: json.RawMessage(`{"query":"x"}`)}))
	}
	p := r.script("search")
	awaitClosed(t, searching, "the search begins")
	r.e.CancelRun(p.run, "")
	r.refusedRun(p, messages.CodeCancelled)
	awaitClosed(t, stopped, "the search ends")
}

func awaitClosed(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	limit := time.NewTimer(soon)
	defer limit.Stop()
	select {
	case <-c:
	case <-limit.C:
		t.Fatalf("it never happened: %s", what)
	}
}

// What was kept for a client is read by its later scripts, and by nobody
// else's.
func TestKeptResults(t *testing.T) {
	r := newRig(t, nil)
	one, two := r.session(), r.session()
	id := r.e.KeepResult(one.ID(), json.RawMessage(`[1,2,3]`))
	other := r.e.KeepResult(two.ID(), json.RawMessage(`"secret"`))
	if id != "r1" || other != "r1" {
		t.Errorf("ids %q and %q", id, other)
	}
	var ids []string
	r.s.programs["read"] = func(s *fakeScript) {
		ids = s.Results
		s.answer(s.await(s.ask(messages.ScriptAsk{Kind: messages.AskResult, Args: json.RawMessage(`{"id":"r1"}`)})))
	}
	of := func(session uint64) func(run *messages.Run) {
		return func(run *messages.Run) { run.Session = session }
	}
	if got := r.valueOf(r.script("read", of(one.ID()))); got != `[1,2,3]` || !slices.Equal(ids, []string{"r1"}) {
		t.Errorf("value %s of ids %q", got, ids)
	}
	if got := r.valueOf(r.script("read", of(two.ID()))); got != `"secret"` {
		t.Errorf("value %s", got)
	}
	if f := r.failedRun(r.script("read", of(r.session().ID())), "exception"); !strings.Contains(f.Message, "no such result") || len(ids) != 0 {
		t.Errorf("failure %+v with ids %q", f, ids)
	}
	one.Close()
	r.failedRun(r.script("read", of(one.ID())), "exception")
}

// What a script leaves whose session is over is nobody's: it is not kept, also where
// the script ended while the session did.
func TestNothingIsKeptForASessionThatIsOver(t *testing.T) {
	r := newRig(t, nil)
	r.s.programs["ids"] = func(s *fakeScript) {
		raw, err := json.Marshal(len(s.Results))
		if err != nil {
			t.Error(err)
		}
		s.value(string(raw))
	}
	kept := func(s *guest) string {
		return r.valueOf(r.script("ids", func(run *messages.Run) { run.Session = s.ID() }))
	}
	s := r.session()
	r.e.sys.Send(r.e.sandbox, &sessionOver{s.ID()})
	if id := r.e.KeepResult(s.ID(), json.RawMessage(`1`)); id != "r1" || kept(s) != "1" {
		t.Fatalf("kept as %q", id)
	}
	r.e.sys.Stop(s.pid)
	r.f.eventually(t, "the session is over", func() bool { return kept(s) == "0" })
	if id := r.e.KeepResult(s.ID(), json.RawMessage(`1`)); id != "" || kept(s) != "0" {
		t.Errorf("a value of a session that is over is kept as %q", id)
	}
}

func TestKeptResultsAreBounded(t *testing.T) {
	var k keptResults
	now := time.Now()
	for i := range 2 * maxKept {
		if id := k.keep(1, 1, json.RawMessage(`1`), now); id != fmt.Sprintf("r%d", i+1) {
			t.Fatalf("id %s", id)
		}
	}
	if ids := k.ids(1); len(ids) != maxKept || ids[0] != fmt.Sprintf("r%d", maxKept+1) || k.get(1, "r1") != nil {
		t.Errorf("ids %q", ids)
	}
	big := make(json.RawMessage, maxKeptSession/2+1)
	k.keep(1, 1, big, now)
	last := k.keep(1, 1, big, now)
	if ids := k.ids(1); !slices.Equal(ids, []string{last}) || k.bytes != len(big) {
		t.Errorf("ids %q, %d bytes", ids, k.bytes)
	}
	if id := k.keep(1, 1, make(json.RawMessage, maxKeptSession+1), now); id != "" {
		t.Errorf("a value over the bound was kept as %s", id)
	}
	if id := k.keep(0, 0, json.RawMessage(`1`), now); id != "" || k.get(0, "r1") != nil {
		t.Errorf("a value of nobody was kept as %q", id)
	}
	for session := range uint64(20) {
		k.keep(session+2, session+2, big, now.Add(time.Duration(session)*time.Second))
		if k.bytes > maxKeptAll {
			t.Fatalf("%d bytes are kept", k.bytes)
		}
	}
	if k.get(1, last) != nil || k.get(21, "r1") == nil {
		t.Error("not the oldest went")
	}
	if next := k.expire(now.Add(keptFor + 19*time.Second)); next != 0 || k.bytes != 0 {
		t.Errorf("%d bytes are left for %v", k.bytes, next)
	}
}

// TestMostKeptMakesRoom: what one principal keeps, in however many sessions, does not
// take the results of others away.
func TestMostKeptMakesRoom(t *testing.T) {
	var k keptResults
	now := time.Now()
	value := make(json.RawMessage, 8<<20)
	theirs := k.keep(1, 7, value, now)
	alone := k.keep(2, 2, value, now)
	const sessions, each = 10, 4
	for i := range sessions * each {
		k.keep(uint64(100+i/each), 8, value, now.Add(time.Duration(i+1)*time.Second))
		if k.bytes > maxKeptAll {
			t.Fatalf("%d bytes are kept", k.bytes)
		}
	}
	if k.get(1, theirs) == nil || k.get(2, alone) == nil {
		t.Error("the results of others went")
	}
	if k.get(100, "r1") != nil || k.get(100+sessions-1, "r4") == nil {
		t.Error("not the oldest of the one with most went")
	}
}

// TestScriptTookFromRequestToAnswer: the wait for a worker is a part of it, in
// the report and in the trace.
func TestScriptTookFromRequestToAnswer(t *testing.T) {
	r := newRig(t, nil)
	out := &shelfOfRecords{wrote: make(chan struct{}, 1)}
	w := r.e.trace.Attach(out, nil)
	const slow = 50 * time.Millisecond
	r.s.launch = func(int) error { <-time.After(slow); return nil }
	r.s.programs["one"] = func(s *fakeScript) { s.value("1") }
	begun := time.Now()
	rep := r.report(r.script("one"))
	if whole := time.Since(begun); rep.Waited < slow || rep.Took < rep.Waited || rep.Took > whole {
		t.Errorf("took %v, of it waited %v; the worker took %v to start and all of it %v", rep.Took, rep.Waited, slow, whole)
	}
	if err := closeWatcher(t, w); err != nil {
		t.Fatal(err)
	}
	told := false
	for _, rec := range out.all() {
		if rec.Kind == messages.TraceAnswer {
			told = rec.RanNs == rep.Took.Nanoseconds() && rec.WaitNs == rep.Waited.Nanoseconds()
		}
	}
	if !told {
		t.Error("the trace tells other times, or none")
	}
}

// TestScriptTrace: the request of a script, its calls and its actor are told
// as one request.
func TestScriptTrace(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.ok("a")
	out := &shelfOfRecords{wrote: make(chan struct{}, 1)}
	w := r.e.trace.Attach(out, nil)
	r.s.programs["one"] = func(s *fakeScript) { s.answer(s.call("a", "do", `{}`)) }
	p := r.script("one")
	r.valueOf(p)
	out.await(t, p.run.Trace, "Run", "runBegin", "scriptAsked", "Call", "scriptAnswer", "scriptEnded", "runOver")
	if err := closeWatcher(t, w); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, rec := range out.all() {
		switch rec.Kind {
		case messages.TraceRequest, messages.TraceAnswer, messages.TraceCall, messages.TraceReturn:
			kinds = append(kinds, strings.TrimSpace(rec.Kind+" "+rec.Server+" "+rec.Tool+" "+rec.Outcome))
			if rec.Request != p.run.Trace || !strings.HasPrefix(rec.To, "metamcp/sandbox/run~") {
				t.Errorf("%s at %s belongs to request %d, want %d", rec.Kind, rec.To, rec.Request, p.run.Trace)
			}
		case messages.TraceDeadLetter:
			t.Errorf("a dead letter: %s to %s", rec.Type, rec.To)
		}
	}
	want := []string{"request  mcp_execute", "call a do", "return a do ok", "answer  mcp_execute ok"}
	if !slices.Equal(kinds, want) {
		t.Errorf("the trace tells %q, want %q", kinds, want)
	}
}
