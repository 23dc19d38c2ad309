package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/metamcp/metamcp/messages"
)

// flushTime bounds the end: what the collector has not taken by then is lost.
const flushTime = 2 * time.Second

// Options say what is told, and of what.
type Options struct {
	// Version of the host.
	Version string
	// Status describes the host. It is called when somebody scrapes and when
	// metrics are exported, from any goroutine.
	Status func(ctx context.Context) (*messages.HostStatus, error)
	// Draining says whether the host refuses new calls, at little cost: it is
	// asked every few seconds where something watches over hosts. The error says
	// why the host does not answer. Called from any goroutine.
	Draining func(ctx context.Context) (bool, error)
	// Known says whether a server and a tool of it exist. What a client made
	// up is told nobody: it may be anything. Called from any goroutine.
	Known func(server, tool string) (knownServer, knownTool bool)
	// Health returns why the host cannot work any more, or nil. nil: it is
	// always well.
	Health func() error
	// ToolLimit is how many tools metrics name; 0: none.
	ToolLimit int
	// Log takes problems; nil: nobody does.
	Log *slog.Logger
}

// Telemetry is what a host tells. Its methods are safe for any goroutine; a nil
// *Telemetry tells nothing and only passes trace contexts on.
type Telemetry struct {
	opts      Options
	log       *slog.Logger
	labels    *labels
	exporting *exporting // nil: nothing goes out over OTLP

	recording atomic.Bool // durations are recorded for Prometheus
	registry  func() *registry
	servers   serverList

	closeOnce sync.Once
	closeErr  error
}

// New starts to tell. Without the variables of OpenTelemetry, and until
// somebody scrapes, it runs nothing and records nothing. What is wrong with
// the variables is logged; the host works on without.
func New(opts Options) *Telemetry {
	t := &Telemetry{opts: opts, log: opts.Log, labels: newLabels(opts.ToolLimit)}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	if t.opts.Health == nil {
		t.opts.Health = func() error { return nil }
	}
	t.registry = sync.OnceValue(t.newRegistry)
	if plan := planFromEnvironment(t.log); plan.on() {
		t.exporting = t.export(plan)
	}
	return t
}

// Exporting reports whether anything goes out over OTLP.
func (t *Telemetry) Exporting() bool { return t != nil && t.exporting != nil }

// BeginRequest sets call.Sending for a call that a client sent over a transport
// with the given trace context. End follows.
func (t *Telemetry) BeginRequest(call *messages.Call, tc messages.TraceContext, era messages.Era, over messages.Transport) {
	if !t.Exporting() {
		if members := passOn(tc); members != nil {
			call.Sending = members
		}
		return
	}
	parent := contextOf(tc)
	t.begin(parent, call, origin{kind: trace.SpanKindServer, name: spanName(call, frontTool), era: era, over: over, baggage: appendMember(nil, keyBaggage, tc.Baggage)})
}

// BeginCall is BeginRequest for a call that a Go program made; ctx may hold a
// span of the program.
func (t *Telemetry) BeginCall(ctx context.Context, call *messages.Call) {
	if !t.Exporting() {
		if members := membersOf(ctx); members != nil {
			call.Sending = passedOn(members)
		}
		return
	}
	// A span outlives the context that its parent was in, so nothing but the
	// parent is taken from ctx.
	parent := trace.ContextWithSpanContext(context.Background(), trace.SpanContextFromContext(ctx))
	t.begin(parent, call, origin{kind: trace.SpanKindInternal, name: "execute_tool", baggage: baggageOf(ctx)})
}

// Ended says how a call ended: one of the outcomes "ok", "tool-error" and
// "rpc-error", or the code of a.Err. It keeps nothing.
func (t *Telemetry) Ended(call *messages.Call, a *messages.Answer, outcome string, took time.Duration) {
	if t == nil {
		return
	}
	span, _ := call.Sending.(*callSpan)
	if span == nil && !t.recording.Load() {
		return
	}
	known := t.labels.of(call.Server, call.Tool, t.opts.Known)
	if span != nil {
		span.end(a, outcome, took, known)
	}
	if t.recording.Load() {
		t.registry().observe(known, outcome, took)
	}
}

// Close ends everything. What is queued goes out where the collector takes it
// within two seconds and ctx. A second call returns what the first did.
func (t *Telemetry) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.closeOnce.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, flushTime)
		defer cancel()
		if t.exporting != nil {
			t.exporting.close(ctx)
		}
		t.closeErr = t.servers.close(ctx)
	})
	return t.closeErr
}
