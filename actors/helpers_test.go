package actors

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// soon bounds the wait for what must happen; it says nothing about speed.
const soon = 20 * time.Second

var lastCall atomic.Uint64

// port is a reply port that counts its answers.
type port struct {
	mu       sync.Mutex
	answers  []*messages.Answer
	first    chan struct{}
	held     bool // an answer with More came, and nothing after it
	progress []json.RawMessage
	begun    chan struct{} // closed at the first progress
}

func newPort() *port { return &port{first: make(chan struct{}), begun: make(chan struct{})} }

// Answer implements messages.ReplyPort.
func (p *port) Answer(a *messages.Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers = append(p.answers, a)
	p.held = a.More
	if len(p.answers) == 1 {
		close(p.first)
	}
}

// Flush implements messages.FlushPort.
func (p *port) Flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = false
}

func (p *port) holds() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// Progress implements messages.ProgressPort.
func (p *port) Progress(_ uint64, params json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.progress = append(p.progress, params)
	if len(p.progress) == 1 {
		close(p.begun)
	}
}

func (p *port) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.answers)
}

func (p *port) answered() bool { return p.count() > 0 }

// rig is an engine on fake children.
type rig struct {
	t     testing.TB
	f     *fakeLauncher
	s     *fakeSandbox
	e     *Engine
	specs map[string]*messages.ServerSpec
	ports []*port
	runs  []*runPort
	// discover answers the searches of scripts.
	search func(ctx context.Context, args json.RawMessage, only []string) (json.RawMessage, *messages.Error)
	mu     sync.Mutex
	trace  *recorder
	down   bool
}

func settings() supervision.PoolSettings {
	return supervision.PoolSettings{
		Pool: supervision.PoolConfig{
			Size: 20, ReserveAfter: 10 * time.Millisecond, IdleTimeout: time.Hour,
			AcquireTimeout: 30 * time.Second, MaxWaiters: 1024,
		},
		FailureThreshold: 5, Cooldown: time.Hour,
	}
}

func newRig(t testing.TB, change func(s *supervision.PoolSettings)) *rig {
	t.Helper()
	return newRigWith(t, change, func(*Options) {})
}

// keptBy is an option: somebody remembers which definitions were accepted.
func keptBy(k index.Keeper) func(o *Options) { return func(o *Options) { o.Keeper = k } }

func newRigWith(t testing.TB, change func(s *supervision.PoolSettings), options func(o *Options)) *rig {
	t.Helper()
	s := settings()
	if change != nil {
		change(&s)
	}
	r := &rig{t: t, f: newFakeLauncher(), s: newFakeSandbox(), specs: map[string]*messages.ServerSpec{}, trace: &recorder{}}
	o := Options{
		Sandbox: r.s, SandboxSettings: sandboxSettings(), NextCall: func() uint64 { return lastCall.Add(1) },
		Discover: func(ctx context.Context, _ uint64, args json.RawMessage, only []string) (json.RawMessage, *messages.Error) {
			return r.discover(ctx, args, only)
		},
		Launcher: r.f, Settings: s, CatalogSweep: time.Hour, Name: "test", Version: "1", Log: quiet(),
		GaveUp: func(reason any) { t.Errorf("the root gave up: %v", reason) },
	}
	options(&o)
	e, err := NewEngine(o)
	if err != nil {
		t.Fatal(err)
	}
	r.e = e
	e.sys.SetTracer(r.trace)
	t.Cleanup(func() { r.close() })
	return r
}

// close ends the engine and holds it to its promises.
func (r *rig) close() {
	r.t.Helper()
	if r.down {
		return
	}
	r.down = true
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	if err := r.e.Close(ctx, time.Now()); err != nil {
		r.t.Errorf("close: %v", err)
	}
	r.f.check(r.t)
	r.s.check(r.t)
	for _, p := range r.runs {
		if n := p.count(); n != 1 {
			r.t.Errorf("a script got %d answers", n)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, p := range r.ports {
		if n := p.count(); n != 1 {
			r.t.Errorf("call %d of the test got %d answers", i, n)
		}
		if p.holds() {
			r.t.Errorf("call %d of the test holds its answer back for ever", i)
		}
	}
	r.trace.check(r.t)
}

func spec(name string, change func(s *messages.ServerSpec)) *messages.ServerSpec {
	s := &messages.ServerSpec{
		Name: name, Transport: messages.TransportStdio, Command: "fake",
		Timeout: 30 * time.Second, MaxTimeout: 60 * time.Second, StartupTimeout: 20 * time.Second,
		MaxInstances: 1, Retry: messages.RetrySafe, Hash: "1",
	}
	if change != nil {
		change(s)
	}
	return s
}

func (r *rig) all() []*messages.ServerSpec {
	out := make([]*messages.ServerSpec, 0, len(r.specs))
	for _, s := range r.specs {
		out = append(out, s)
	}
	return out
}

// add makes a server known.
func (r *rig) add(name string, sc *script, change func(s *messages.ServerSpec)) {
	r.t.Helper()
	if sc != nil {
		r.f.mu.Lock()
		r.f.scripts[name] = sc
		r.f.mu.Unlock()
	}
	s := spec(name, change)
	r.specs[name] = s
	r.apply(Change{Added: []*messages.ServerSpec{s}})
}

func (r *rig) apply(c Change) {
	r.t.Helper()
	c.All = r.all()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	if err := r.e.Apply(ctx, c); err != nil {
		r.t.Fatal(err)
	}
}

type pendingCall struct {
	*port
	call *messages.Call
}

// start sends a call and does not wait.
func (r *rig) start(server, tool string, args doArgs, change ...func(c *messages.Call)) *pendingCall {
	raw, err := json.Marshal(args)
	if err != nil {
		r.t.Fatal(err)
	}
	p := newPort()
	c := &messages.Call{
		ID: lastCall.Add(1), Server: server, Method: methodToolsCall, Tool: tool, Args: raw,
		Cancelled: &atomic.Bool{}, Reply: p, Progress: p,
	}
	for _, f := range change {
		f(c)
	}
	r.mu.Lock()
	r.ports = append(r.ports, p)
	r.mu.Unlock()
	r.e.Call(c)
	return &pendingCall{p, c}
}

// wait returns the answer.
func (r *rig) wait(p *pendingCall) *messages.Answer {
	r.t.Helper()
	t := time.NewTimer(soon)
	defer t.Stop()
	select {
	case <-p.first:
	case <-t.C:
		r.t.Fatalf("no answer to call %d of %s", p.call.ID, p.call.Server)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answers[0]
}

func (r *rig) do(server, tool string, args doArgs, change ...func(c *messages.Call)) *messages.Answer {
	r.t.Helper()
	return r.wait(r.start(server, tool, args, change...))
}

// ok calls and demands a result.
func (r *rig) ok(server string) *messages.Answer {
	r.t.Helper()
	a := r.do(server, "do", doArgs{})
	r.wantResult(a)
	return a
}

func (r *rig) wantResult(a *messages.Answer) {
	r.t.Helper()
	if a.Err != nil || a.Result == nil {
		r.t.Fatalf("want a result, got %s (error %v)", a.RPCError, a.Err)
	}
}

func (r *rig) wantCode(a *messages.Answer, code messages.Code) *messages.Error {
	r.t.Helper()
	if a.Err == nil {
		r.t.Fatalf("want %s, got result %s and RPC error %s", code, a.Result, a.RPCError)
	}
	if a.Err.Code != code {
		r.t.Fatalf("want %s, got %v", code, a.Err)
	}
	return a.Err
}

func (r *rig) status(server string) messages.Status {
	e, ok := r.e.Directory().Lookup(server)
	if !ok {
		return messages.Status{}
	}
	return e.Status()
}

func (r *rig) stats() supervision.PoolReport {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	s, err := r.e.PoolStats(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// settled waits until no connection is busy, so that what was called is idle.
func (r *rig) settled(idle int) {
	r.t.Helper()
	var s supervision.PoolReport
	defer func() {
		if r.t.Failed() {
			r.t.Logf("the pool: %+v; history:\n%s", s, r.trace.history(""))
		}
	}()
	r.f.eventually(r.t, "the pool has only idle connections", func() bool {
		s = r.stats()
		return s.Busy == 0 && s.Evicting == 0 && s.Waiting == 0 && s.Idle == idle
	})
}

// got waits until the server's children got n lines of a method.
func (r *rig) got(server, method string, n int) []rpcLine {
	r.t.Helper()
	var lines []rpcLine
	r.f.eventually(r.t, server+" gets "+method, func() bool {
		lines = r.f.lines(server, method)
		return len(lines) >= n
	})
	return lines
}
