package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/metamcp/metamcp/messages"
)

// executeName is the tool that clients run scripts with.
const executeName = "mcp_execute"

// Script is the telemetry of one script: its span, below which are those of
// its calls. A nil *Script tells nothing.
type Script struct {
	t       *Telemetry
	passOn  passedOn
	baggage []byte
	ctx     context.Context // with the span; nil: nothing goes out
	span    trace.Span
}

// BeginScript begins the telemetry of a script that a Go program runs; ctx may
// hold a span of the program. End follows.
func (t *Telemetry) BeginScript(ctx context.Context, request uint64) *Script {
	s := &Script{t: t, baggage: baggageOf(ctx)}
	if !t.Exporting() {
		s.passOn = membersOf(ctx)
		return s
	}
	// As with a call, nothing but the parent is taken from ctx.
	s.begin(trace.ContextWithSpanContext(context.Background(), trace.SpanContextFromContext(ctx)), trace.SpanKindInternal, "execute_script", request)
	return s
}

// BeginScriptRequest is BeginScript for a script that a client sent over a
// transport with the given trace context.
func (t *Telemetry) BeginScriptRequest(tc messages.TraceContext, over messages.Transport, request uint64) *Script {
	s := &Script{t: t, baggage: appendMember(nil, keyBaggage, tc.Baggage)}
	if !t.Exporting() {
		s.passOn = passOn(tc)
		return s
	}
	s.begin(contextOf(tc), trace.SpanKindServer, "tools/call "+executeName, request)
	s.span.SetAttributes(attrMethod.String(methodCall), attrTool.String(executeName))
	s.span.SetAttributes(network(over)...)
	return s
}

func (s *Script) begin(parent context.Context, kind trace.SpanKind, name string, request uint64) {
	s.ctx, s.span = s.t.exporting.tracer.Start(parent, name, trace.WithSpanKind(kind),
		trace.WithAttributes(attrOperation.String(executeTool), attrRequest.Int64(int64(request))))
}

// BeginCall sets call.Sending for a call of the script. [Telemetry.Ended]
// follows.
func (s *Script) BeginCall(call *messages.Call) {
	switch {
	case s == nil:
	case s.ctx != nil:
		s.t.begin(s.ctx, call, origin{kind: trace.SpanKindInternal, name: executeTool, baggage: s.baggage})
	case s.passOn != nil:
		call.Sending = s.passOn
	}
}

// End says how the script ended: "ok", or the code of what went wrong.
func (s *Script) End(outcome string) {
	if s == nil || s.ctx == nil {
		return
	}
	s.span.SetAttributes(attrOutcome.String(outcome))
	if outcome != outcomeOK {
		fail(s.span, outcome)
	}
	s.span.End()
}
