package actors

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

func within(d time.Duration) func(*messages.Call) {
	return func(c *messages.Call) { c.Timeout = d }
}

func TestTimeoutCancelsAtTheChild(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.ok("a")
	p := r.start("a", "do", doArgs{Do: "late"}, within(40*time.Millisecond))
	err := r.wantCode(r.wait(p), messages.CodeExecutionTimeout)
	if !strings.Contains(err.Message, "40ms") || !strings.Contains(err.Hint, "longer timeoutMs") {
		t.Errorf("message %q does not name the timeout, or hint %q not what gives more", err.Message, err.Hint)
	}
	line := r.got("a", methodCancelled, 1)[0]
	if id, ok := messages.ParseRequestID(cancelledID(t, line)); !ok || id != p.call.ID {
		t.Errorf("the child was told to cancel %s, want %d", line.Params, p.call.ID)
	}
	// The fake answers a cancelled call all the same.
	r.f.eventually(t, "the late answer is counted", func() bool { return r.trace.count("late", "") >= 1 && r.e.Counts().Late >= 1 })
	// Pinged, it answers, and is the same child still.
	r.got("a", methodPing, 1)
	r.ok("a")
	if n := r.f.started("a"); n != 1 {
		t.Errorf("%d starts, want 1", n)
	}
}

func cancelledID(t *testing.T, line rpcLine) []byte {
	t.Helper()
	_, rest, ok := strings.Cut(string(line.Params), `"requestId":`)
	if !ok {
		t.Fatalf("params %s have no requestId", line.Params)
	}
	id, _, _ := strings.Cut(rest, ",")
	return []byte(id)
}

func TestUnansweredPingFailsTheConnection(t *testing.T) {
	t.Parallel() // it waits for the whole of pingTimeout
	r := newRig(t, nil)
	r.add("a", &script{stderr: []string{"the database is locked"}}, nil)
	r.ok("a")
	other := r.start("a", "do", doArgs{Do: "silent"})
	r.wantCode(r.do("a", "do", doArgs{Do: "deaf"}, within(40*time.Millisecond)), messages.CodeExecutionTimeout)
	err := r.wantCode(r.wait(other), messages.CodeToolExecution)
	if !strings.Contains(err.Message, "unknown") {
		t.Errorf("message %q does not say that the outcome is unknown", err.Message)
	}
	if !slices.Equal(err.Details, []string{"the database is locked"}) {
		t.Errorf("details %q do not have what the child said", err.Details)
	}
	r.ok("a")
	if n := r.f.started("a"); n != 2 {
		t.Errorf("%d starts, want 2", n)
	}
}

func TestProgressGivesTimeUpToTheLimit(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, func(s *messages.ServerSpec) { s.MaxTimeout = time.Minute })
	r.add("b", nil, func(s *messages.ServerSpec) { s.MaxTimeout = 300 * time.Millisecond })
	r.ok("a")
	r.ok("b")
	long := r.start("a", "do", doArgs{Do: "progress", Ms: 50, N: 12}, within(400*time.Millisecond))
	r.wantResult(r.wait(long))
	if n := len(long.progress); n != 12 {
		t.Errorf("%d progress notifications arrived, want 12", n)
	}
	endless := r.start("b", "do", doArgs{Do: "progress", Ms: 20, N: 1000}, within(200*time.Millisecond))
	err := r.wantCode(r.wait(endless), messages.CodeExecutionTimeout)
	if !strings.Contains(err.Message, "300ms") {
		t.Errorf("message %q does not name the limit", err.Message)
	}
	if !strings.Contains(err.Hint, "maxTimeoutMs") || strings.Contains(err.Hint, "longer timeoutMs") {
		t.Errorf("hint %q asks for what the limit does not allow", err.Hint)
	}
}

func TestCancelInEveryPhase(t *testing.T) {
	cancel := func(r *rig, p *pendingCall) {
		r.t.Helper()
		r.e.Cancel(p.call, "the user changed her mind")
		r.wantCode(r.wait(p), messages.CodeCancelled)
	}
	t.Run("waiting for the first listing", func(t *testing.T) {
		r := newRig(t, nil)
		r.add("a", &script{silent: []string{methodInitialize, methodDiscover}}, nil)
		p := r.start("a", "do", doArgs{})
		r.got("a", methodInitialize, 1)
		cancel(r, p)
	})
	t.Run("waiting for a place", func(t *testing.T) {
		r := newRig(t, func(s *supervision.PoolSettings) { s.Pool.Size = 1 })
		r.add("a", nil, nil)
		r.add("b", nil, nil)
		r.ok("b") // so that its tools are known
		r.settled(1)
		held := r.start("a", "do", doArgs{Do: "silent"})
		r.got("a", methodToolsCall, 1)
		p := r.start("b", "do", doArgs{})
		r.f.eventually(t, "b waits", func() bool { return r.stats().Waiting == 1 })
		cancel(r, p)
		cancel(r, held)
		r.ok("b")
	})
	t.Run("connecting", func(t *testing.T) {
		r := newRig(t, nil)
		r.add("a", &script{slow: 200 * time.Millisecond}, nil)
		r.ok("a")
		r.f.living("a")[0].crash()
		r.f.eventually(t, "the child is gone", func() bool { return r.f.aliveNow() == 0 })
		p := r.start("a", "do", doArgs{})
		r.got("a", methodInitialize, 2)
		cancel(r, p)
		r.ok("a")
		if n := len(r.f.lines("a", methodToolsCall)); n != 2 {
			t.Errorf("%d calls reached the child, want 2", n)
		}
	})
	t.Run("in flight", func(t *testing.T) {
		r := newRig(t, nil)
		r.add("a", nil, nil)
		p := r.start("a", "do", doArgs{Do: "silent"})
		r.got("a", methodToolsCall, 1)
		cancel(r, p)
		r.got("a", methodCancelled, 1)
		r.ok("a")
		if _, err := r.status("a").Breaker, r.status("a").LastError; err != nil {
			t.Errorf("a cancellation counts as a failure: %v", err)
		}
	})
	t.Run("held after a crash", func(t *testing.T) {
		r := newRig(t, nil)
		// The tree outlives the leader's output, so that the dying takes long.
		r.add("a", &script{stubborn: true}, func(s *messages.ServerSpec) { s.StopGrace = 400 * time.Millisecond })
		r.ok("a")
		l := r.f.living("a")[0]
		l.mu.Lock()
		l.broken = errors.New("broken pipe")
		l.mu.Unlock()
		l.ear.EOF(nil) // it closes its output and lives on
		r.f.eventually(t, "the connection is lost", func() bool { return r.trace.count("transition", "(lost)")+r.trace.count("transition", "CLOSED") > 0 })
		p := r.start("a", "do", doArgs{})
		cancel(r, p)
		r.f.eventually(t, "the stubborn child is killed", func() bool { return r.f.aliveNow() == 0 })
		r.ok("a")
	})
	t.Run("before it is sent", func(t *testing.T) {
		r := newRig(t, nil)
		r.add("a", nil, nil)
		r.ok("a")
		r.settled(1)
		p := r.start("a", "do", doArgs{}, func(c *messages.Call) { c.Cancelled.Store(true) })
		r.wantCode(r.wait(p), messages.CodeCancelled)
		r.settled(1)
	})
}

func TestCrashMidCall(t *testing.T) {
	for _, tc := range []struct {
		name   string
		retry  messages.RetryPolicy
		tool   string
		starts int
		code   messages.Code // "" for a result
	}{
		{"safe, no hint", messages.RetrySafe, "do", 1, messages.CodeToolExecution},
		{"safe, read-only", messages.RetrySafe, "read", 2, ""},
		{"safe, idempotent", messages.RetrySafe, "twice", 2, ""},
		{"always, no hint", messages.RetryAlways, "do", 2, ""},
		{"never, read-only", messages.RetryNever, "read", 1, messages.CodeToolExecution},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.add("a", &script{strict: true}, func(s *messages.ServerSpec) { s.Retry = tc.retry })
			a := r.do("a", tc.tool, doArgs{Do: "dieOnce"})
			if tc.code == "" {
				r.wantResult(a)
			} else if err := r.wantCode(a, tc.code); !strings.Contains(err.Message, "unknown") || err.Retryable {
				t.Errorf("the error does not keep from repeating: %+v", err)
			}
			if n := r.f.started("a"); n != tc.starts {
				t.Errorf("%d starts, want %d", n, tc.starts)
			}
		})
	}
}

// TestAPipeThatIsClosedIsNoExit: a child that only closes one of its pipes is not said to
// have exited with a code that nobody has seen.
func TestAPipeThatIsClosedIsNoExit(t *testing.T) {
	for end, want := range map[error]string{
		nil: "the server closed its output but did not exit", io.EOF: "the server closed its output but did not exit",
		syscall.EPIPE: "the server closed its input but did not exit: broken pipe",
	} {
		r := newRig(t, nil)
		r.add("a", &script{stubborn: true}, func(s *messages.ServerSpec) { s.StopGrace = time.Millisecond })
		r.ok("a")
		p := r.start("a", "do", doArgs{Do: "silent"})
		r.got("a", methodToolsCall, 2)
		r.f.living("a")[0].ear.EOF(end)
		if err := r.wantCode(r.wait(p), messages.CodeToolExecution); !strings.HasSuffix(err.Message, want) || strings.Contains(err.Message, "code 0") {
			t.Errorf("after %v: %s", end, err.Message)
		}
	}
}

func TestRepeatedOnlyOnce(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.wantCode(r.do("a", "read", doArgs{Do: "die"}), messages.CodeToolExecution)
	if n := len(r.f.lines("a", methodToolsCall)); n != 2 {
		t.Errorf("the call was sent %d times, want 2", n)
	}
}

func TestUnwrittenCallIsRepeated(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.ok("a")
	r.settled(1)
	l := r.f.living("a")[0]
	l.mu.Lock()
	l.broken = errors.New("broken pipe")
	l.mu.Unlock()
	p := r.start("a", "do", doArgs{}) // has no hint at all
	r.f.eventually(t, "the connection noticed", func() bool { return r.status("a").State == messages.StateActive })
	l.crash()
	r.wantResult(r.wait(p))
	if n := r.f.started("a"); n != 2 {
		t.Errorf("%d starts, want 2", n)
	}
}

func TestAnswersBeforeTheCrashArrive(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.wantResult(r.do("a", "do", doArgs{Do: "answerdie"}))
}

func TestBacklogRefusesTheCallOnly(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", &script{backlog: func(line []byte) bool { return strings.Contains(string(line), `"do":"echo"`) }}, nil)
	r.ok("a")
	r.wantCode(r.do("a", "do", doArgs{Do: "echo"}), messages.CodePoolSaturated)
	r.ok("a")
	r.settled(1)
}

// TestBacklogAtTheStart: a child takes none of the calls that waited for it. Each of
// them is refused, and the connection lives.
func TestBacklogAtTheStart(t *testing.T) {
	r := newRig(t, nil)
	var full atomic.Bool
	start := make(chan struct{})
	r.add("a", &script{
		launch: func(n int) error {
			if n > 1 {
				<-start
			}
			return nil
		},
		backlog: func(line []byte) bool { return full.Load() && strings.Contains(string(line), methodToolsCall) },
	}, nil)
	r.ok("a") // its tools are known from now on
	r.settled(1)
	r.f.living("a")[0].crash()
	r.f.eventually(t, "the first child is gone", func() bool { return r.status("a").Instances == 0 })
	full.Store(true)
	waiting := []*pendingCall{r.start("a", "do", doArgs{}), r.start("a", "do", doArgs{})}
	r.f.eventually(t, "both wait for the second", func() bool { return r.held("a") == len(waiting) })
	close(start)
	for _, p := range waiting {
		r.wantCode(r.wait(p), messages.CodePoolSaturated)
	}
	full.Store(false)
	r.ok("a")
	if n := r.f.started("a"); n != 2 {
		t.Errorf("%d starts, want 2", n)
	}
}

func TestOddAnswers(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.wantResult(r.do("a", "do", doArgs{Do: "twice"}))
	r.wantCode(r.do("a", "do", doArgs{Do: "empty"}), messages.CodeToolExecution)
	// What no client could read must not be passed on: its caller would wait.
	for _, body := range []string{
		`"result":null`, `"result":5`, `"result":"x"`, `"result":[1]`, `"result":true`,
		`"error":null`, `"error":"boom"`, `"error":7`, `"error":{}`, `"error":{"code":-5}`, `"error":{"code":"x","message":"m"}`, `"error":{"code":1,"message":5}`,
	} {
		a := r.do("a", "do", doArgs{Do: "say " + body})
		r.wantCode(a, messages.CodeToolExecution)
		if a.Err != nil && len(a.Err.Details) == 0 {
			t.Errorf("%s: what the server said is not told", body)
		}
	}
	r.wantResult(r.do("a", "do", doArgs{Do: `say "result":{"content":[]},"error":null`}))
	if a := r.do("a", "do", doArgs{Do: "rpcerror"}); a.RPCError == nil {
		t.Errorf("want the child's own error, got %+v", a)
	}
	if a := r.do("a", "do", doArgs{Do: "iserror"}); !strings.Contains(string(a.Result), "isError") {
		t.Errorf("want the child's own result, got %+v", a)
	}
	r.settled(1)
}

func TestChecksBeforeAnythingIsSent(t *testing.T) {
	r := newRig(t, nil)
	r.add("alpha", nil, nil)
	r.ok("alpha")
	err := r.wantCode(r.do("alpah", "do", doArgs{}), messages.CodeServerNotFound)
	if !strings.Contains(err.Message, `"alpha"`) {
		t.Errorf("the nearest server is not named: %q", err.Message)
	}
	err = r.wantCode(r.do("alpha", "raed", doArgs{}), messages.CodeToolNotFound)
	if !strings.Contains(err.Message, `"read"`) {
		t.Errorf("the nearest tool is not named: %q", err.Message)
	}
	before := len(r.f.lines("alpha", methodToolsCall))
	bad := r.start("alpha", "typed", doArgs{}, func(c *messages.Call) { c.Args = []byte(`{"n":"x"}`) })
	if err := r.wantCode(r.wait(bad), messages.CodeValidation); len(err.Details) == 0 {
		t.Errorf("no bad path is named: %+v", err)
	}
	if after := len(r.f.lines("alpha", methodToolsCall)); after != before {
		t.Errorf("an invalid call reached the child")
	}
}

func TestQuoted(t *testing.T) {
	for want, names := range map[string][]string{"": nil, `"a"`: {"a"}, `"a", "b\"c"`: {"a", `b"c`}} {
		if got := Quoted(names); got != want {
			t.Errorf("%q: %s, want %s", names, got, want)
		}
	}
}

// TestBrokenConnection has a link that panics: the call is answered, the child
// ends, and the next call gets another.
func TestBrokenConnection(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", &script{panics: func(line []byte) bool { return strings.Contains(string(line), `"do":"echo"`) }}, nil)
	r.ok("a")
	other := r.start("a", "do", doArgs{Do: "silent"})
	r.wantCode(r.do("a", "do", doArgs{Do: "echo"}), messages.CodeToolExecution)
	r.wantCode(r.wait(other), messages.CodeToolExecution)
	r.ok("a")
	if n := r.f.started("a"); n != 2 {
		t.Errorf("%d starts, want 2", n)
	}
}

// TestAnAnswerSurvivesTheNextCall has an answer free the place of a call that the link
// breaks at: the answer is there already, and is given.
func TestAnAnswerSurvivesTheNextCall(t *testing.T) {
	g := &gatekeeper{}
	r := newRig(t, nil)
	sc := g.script()
	sc.panics = func(line []byte) bool { return strings.Contains(string(line), `"do":"boom"`) }
	r.add("x", sc, func(s *messages.ServerSpec) { s.MaxInFlight = 1 })
	one, other := r.session(), r.session()
	first := r.by(one, "x", "hold first")
	r.f.eventually(t, "the child has the first", func() bool { return g.count("first") == 1 })
	second, third := r.by(other, "x", "boom"), r.by(one, "x", "echo")
	g.let()
	r.wantResult(r.wait(first))
	r.wantCode(r.wait(second), messages.CodeToolExecution)
	r.wantResult(r.wait(third))
	if n := r.f.started("x"); n != 2 {
		t.Errorf("%d starts, want 2", n)
	}
}

// TestAnAnswerSurvivesWhoIsToldOfIt has those break who are told of every call: the
// caller has its answer, with a session and without.
func TestAnAnswerSurvivesWhoIsToldOfIt(t *testing.T) {
	r := newRigWith(t, nil, func(o *Options) { o.CallEnded = func(*CallReport) { panic("the record breaks") } })
	r.add("x", nil, nil)
	r.wantResult(r.wait(r.by(r.session(), "x", "echo")))
	p := r.start("x", "do", doArgs{Do: "echo"}, func(c *messages.Call) { c.Reply = r.e.Observed(c) })
	r.wantResult(r.wait(p))
}

// brokenClient panics with whatever it hears, as a bug in a front would.
type brokenClient struct {
	heard chan string
	reply messages.ReplyPort
}

func (c brokenClient) broken(what string) {
	c.heard <- what
	panic("broken")
}
func (c brokenClient) Ask(uint64, []*messages.Question)              { c.broken("ask") }
func (c brokenClient) Withdraw(uint64, []*messages.Question, string) { c.broken("withdraw") }
func (c brokenClient) Notify(uint64, string, json.RawMessage)        { c.broken("notify") }
func (c brokenClient) Progress(uint64, json.RawMessage)              { c.broken("progress") }
func (c brokenClient) Answer(a *messages.Answer) {
	c.reply.Answer(a)
	c.broken("answer")
}

// TestABrokenCallerIsNobodyElsesMatter has the ports of a caller break at whatever
// they are told: another call that the child has is answered, by the same child.
func TestABrokenCallerIsNobodyElsesMatter(t *testing.T) {
	for deed, want := range map[string][]string{
		"ask":      {"ask", "withdraw", "answer"},
		"progress": {"progress", "answer"},
		"die":      {"answer"},
		"silent":   {"answer"}, // is cancelled
	} {
		t.Run(deed, func(t *testing.T) {
			g := &gatekeeper{}
			r := newRig(t, nil)
			r.add("x", g.script(), func(s *messages.ServerSpec) { s.Asks.Sampling = true })
			other := r.start("x", "read", doArgs{Do: "hold other"}) // may be repeated
			r.f.eventually(t, "the child has the other call", func() bool { return g.count("other") == 1 })
			heard := make(chan string, 16)
			broken := r.start("x", "do", doArgs{Do: deed, N: 1}, func(c *messages.Call) {
				client := brokenClient{heard, c.Reply}
				c.Client, c.Progress, c.Reply, c.Can.Sampling = client, client, client, true
			})
			if deed == "silent" {
				r.got("x", methodToolsCall, 2)
				r.e.Cancel(broken.call, "given up")
			}
			for _, what := range want {
				select {
				case got := <-heard:
					if got != what {
						t.Errorf("it heard %s, want %s", got, what)
					}
				case <-time.After(soon):
					t.Fatalf("it never heard %s", what)
				}
			}
			starts := 1
			if deed == "die" {
				starts = 2
				g.let() // goes nowhere
				r.f.eventually(t, "the next child has the other call", func() bool { return g.count("other") == 1 })
			}
			g.let()
			r.wantResult(r.wait(other))
			if n := r.f.started("x"); n != starts {
				t.Errorf("%d starts, want %d", n, starts)
			}
		})
	}
}

// TestAskedByWayOfAnotherCall has a child ask something while the newest call that it
// has is one by which the client cannot be reached.
func TestAskedByWayOfAnotherCall(t *testing.T) {
	g := &gatekeeper{}
	r := newRig(t, nil)
	r.add("x", g.script(), func(s *messages.ServerSpec) { s.Asks.Sampling = true })
	client := make(asksOnly, 1)
	first := r.start("x", "do", doArgs{Do: "hold first"}, func(c *messages.Call) { c.Client, c.Can.Sampling = client, true })
	r.f.eventually(t, "the child has the first call", func() bool { return g.count("first") == 1 })
	r.wantResult(r.do("x", "do", doArgs{Do: "ask"}))
	select {
	case q := <-client:
		if q.Method != messages.MethodSample {
			t.Errorf("asked for %s", q.Method)
		}
	case <-time.After(soon):
		t.Fatal("the client is not asked")
	}
	g.let()
	r.wantResult(r.wait(first))
}

// TestOddProgressIsNotPassedOn: of what a child reports, a client gets what it
// can read.
func TestOddProgressIsNotPassedOn(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	p := r.start("a", "do", doArgs{Do: "oddprogress"})
	r.wantResult(r.wait(p))
	if len(p.progress) != 1 || !strings.Contains(string(p.progress[0]), `"message":"half"`) {
		t.Errorf("progress %s, want the one that is proper", p.progress)
	}
}
