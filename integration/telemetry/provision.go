package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/metamcp/metamcp/messages"
)

// provisionName is the tool that clients ask for servers with.
const provisionName = "mcp_provision"

const attrDecision = attribute.Key("metamcp.provision.decision")

// Provision is the telemetry of one request for a server: its span. A nil
// *Provision tells nothing.
type Provision struct{ span trace.Span }

// BeginProvision begins the telemetry of a request that a Go program makes; ctx
// may hold a span of the program. End follows.
func (t *Telemetry) BeginProvision(ctx context.Context, request uint64) *Provision {
	if !t.Exporting() {
		return nil
	}
	parent := trace.ContextWithSpanContext(context.Background(), trace.SpanContextFromContext(ctx))
	return t.beginProvision(parent, trace.SpanKindInternal, "provision", request)
}

// BeginProvisionRequest is BeginProvision for a request that a client sent over a
// transport with the given trace context.
func (t *Telemetry) BeginProvisionRequest(tc messages.TraceContext, over messages.Transport, request uint64) *Provision {
	if !t.Exporting() {
		return nil
	}
	p := t.beginProvision(contextOf(tc), trace.SpanKindServer, "tools/call "+provisionName, request)
	p.span.SetAttributes(attrMethod.String(methodCall), attrTool.String(provisionName))
	p.span.SetAttributes(network(over)...)
	return p
}

func (t *Telemetry) beginProvision(parent context.Context, kind trace.SpanKind, name string, request uint64) *Provision {
	_, span := t.exporting.tracer.Start(parent, name, trace.WithSpanKind(kind),
		trace.WithAttributes(attrOperation.String(executeTool), attrRequest.Int64(int64(request))))
	return &Provision{span}
}

// End says what was decided, and how the request ended: "ok", or the code of
// what went wrong.
func (p *Provision) End(decision, outcome string) {
	if p == nil {
		return
	}
	p.span.SetAttributes(attrDecision.String(decision), attrOutcome.String(outcome))
	if outcome != outcomeOK {
		fail(p.span, outcome)
	}
	p.span.End()
}
