package telemetry

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/metamcp/metamcp/messages"
)

// What OpenTelemetry's conventions for MCP call things, and the names of ours
// below "metamcp".
const (
	attrMethod    = attribute.Key("mcp.method.name")
	attrVersion   = attribute.Key("mcp.protocol.version")
	attrOperation = attribute.Key("gen_ai.operation.name")
	attrTool      = attribute.Key("gen_ai.tool.name")
	attrPrompt    = attribute.Key("gen_ai.prompt.name")
	attrErrorType = attribute.Key("error.type")
	attrStatus    = attribute.Key("rpc.response.status_code")
	attrRequestID = attribute.Key("jsonrpc.request.id")
	attrTransport = attribute.Key("network.transport")

	attrServer    = attribute.Key("metamcp.server.name")
	attrOurTool   = attribute.Key("metamcp.tool.name")
	attrOutcome   = attribute.Key("metamcp.outcome")
	attrRetries   = attribute.Key("metamcp.retries")
	attrAttempt   = attribute.Key("metamcp.attempt")
	attrInstance  = attribute.Key("metamcp.instance")
	attrRequest   = attribute.Key("metamcp.request.id")
	attrArgsSize  = attribute.Key("metamcp.request.size")
	attrReplySize = attribute.Key("metamcp.response.size")
)

// frontTool is the tool that clients call.
const frontTool = "mcp_call"

const (
	methodCall  = "tools/call"
	errorLost   = "connection_lost" // an attempt that got no answer
	errorTool   = "tool_error"      // as the conventions have it
	errorOther  = "_OTHER"
	outcomeOK   = "ok"
	outcomeTool = "tool-error"
	outcomeRPC  = "rpc-error"
	executeTool = "execute_tool"
	lowestRPC   = -32768 // what JSON-RPC reserves for errors of its own,
	highestRPC  = -32000 // so that metrics can name them
)

// origin says who made a call.
type origin struct {
	kind    trace.SpanKind
	name    string
	era     messages.Era
	over    messages.Transport
	baggage []byte // a member of _meta, or nil
}

// callSpan is the telemetry of one call: the span of the request, and below it
// one for each attempt at the child. It is the call's [messages.SendPort].
type callSpan struct {
	x      *exporting
	origin origin
	call   *messages.Call
	ctx    context.Context // with the request's span
	span   trace.Span

	mu     sync.Mutex
	over   bool
	client trace.Span // of the attempt that is out; nil: none
	sent   time.Time
	to     messages.Sending
}

func (t *Telemetry) begin(parent context.Context, call *messages.Call, o origin) {
	c := &callSpan{x: t.exporting, origin: o, call: call}
	c.ctx, c.span = t.exporting.tracer.Start(parent, o.name, trace.WithSpanKind(o.kind), trace.WithAttributes(c.requestAttributes()...))
	call.Sending = c
}

// requestAttributes are what is known of a call when it comes.
func (c *callSpan) requestAttributes() []attribute.KeyValue {
	attrs := make([]attribute.KeyValue, 0, 8)
	attrs = append(attrs, attrRequest.Int64(int64(c.call.Trace)), attrArgsSize.Int(c.call.PayloadBytes()))
	attrs = append(attrs, operation(c.call)...)
	if prompt := promptOf(c.call); prompt != "" {
		attrs = append(attrs, attrPrompt.String(prompt))
	}
	if v := versionOf(c.origin.era); v != "" {
		attrs = append(attrs, attrVersion.String(v))
	}
	return append(attrs, c.frontAttributes()...)
}

// frontAttributes are those of a client's request alone.
func (c *callSpan) frontAttributes() []attribute.KeyValue {
	if c.origin.kind != trace.SpanKindServer {
		return nil
	}
	attrs := append([]attribute.KeyValue{attrMethod.String(methodOf(c.call))}, network(c.origin.over)...)
	if c.call.OfTool() {
		attrs = append(attrs, attrTool.String(frontTool))
	}
	return attrs
}

// network is what carries a transport, in the words of the conventions.
func network(over messages.Transport) []attribute.KeyValue {
	switch over {
	case messages.TransportStdio:
		return []attribute.KeyValue{attrTransport.String("pipe")}
	case messages.TransportHTTP, messages.TransportSSE:
		return []attribute.KeyValue{attrTransport.String("tcp")}
	}
	return nil
}

// Sending implements messages.SendPort.
func (c *callSpan) Sending(s messages.Sending) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return c.members(c.ctx) // nobody waits for it; the child still learns whose it is
	}
	if c.client != nil {
		c.endAttempt(errorLost, nil)
	}
	c.to, c.sent = s, time.Now()
	attrs := append(c.attemptAttributes(c.call.Server, c.call.Tool),
		attrRequestID.String(strconv.FormatUint(c.call.ID, 10)), attrAttempt.Int(int(s.Attempt)),
		attrInstance.Int64(int64(s.Instance)), attrArgsSize.Int(c.call.PayloadBytes()))
	if prompt := promptOf(c.call); prompt != "" {
		attrs = append(attrs, attrPrompt.String(prompt))
	}
	ctx, span := c.x.tracer.Start(c.ctx, spanName(c.call, c.call.Tool),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(c.sent), trace.WithAttributes(attrs...))
	c.client = span
	return c.members(ctx)
}

// attemptAttributes are those of a request to a child that metrics have too.
func (c *callSpan) attemptAttributes(server, tool string) []attribute.KeyValue {
	attrs := make([]attribute.KeyValue, 0, 12)
	attrs = append(attrs, attrMethod.String(methodOf(c.call)), attrServer.String(server))
	attrs = append(attrs, operation(c.call)...)
	if tool != "" {
		attrs = append(attrs, attrTool.String(tool))
	}
	if v := versionOf(c.to.Era); v != "" {
		attrs = append(attrs, attrVersion.String(v))
	}
	return append(attrs, network(c.to.Transport)...)
}

func (c *callSpan) members(ctx context.Context) []byte {
	members := membersOf(ctx)
	if len(c.origin.baggage) == 0 {
		return members
	}
	if members != nil {
		members = append(members, ',')
	}
	return append(members, c.origin.baggage...)
}

// versionOf is the revision that an era speaks; "" where it may be one of
// several.
func versionOf(era messages.Era) string {
	if era == messages.EraModern {
		return mcp.LATEST_PROTOCOL_VERSION
	}
	return ""
}

// endAttempt ends the span of the attempt that is out. a is nil for one that
// got no answer. The caller holds mu.
func (c *callSpan) endAttempt(errorType string, a *messages.Answer) {
	now := time.Now()
	if a != nil {
		c.client.SetAttributes(attrReplySize.Int(a.PayloadBytes()))
		if code, ok := rpcCode(a); ok {
			c.client.SetAttributes(attrStatus.String(code))
		}
	}
	fail(c.client, errorType)
	c.client.End(trace.WithTimestamp(now))
	c.client = nil
	if h := c.x.clientDuration; h != nil {
		l := c.x.t.labels.of(c.call.Server, c.call.Tool, c.x.t.opts.Known)
		attrs := c.attemptAttributes(l.server, l.tool)
		if errorType != "" {
			attrs = append(attrs, attrErrorType.String(bounded(errorType)))
		}
		h.Record(c.ctx, now.Sub(c.sent).Seconds(), metric.WithAttributes(attrs...))
	}
}

// bounded is an error type of which there are not too many.
func bounded(errorType string) string {
	if n, err := strconv.ParseInt(errorType, 10, 64); err == nil && (n < lowestRPC || n > highestRPC) {
		return errorOther
	}
	return errorType
}

// end ends all spans of the call and counts it.
func (c *callSpan) end(a *messages.Answer, outcome string, took time.Duration, known label) {
	errorType := errorTypeOf(a, outcome)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over = true
	if c.client != nil {
		c.endAttempt(errorType, a)
	}
	attrs := []attribute.KeyValue{attrOutcome.String(outcome), attrReplySize.Int(a.PayloadBytes()), attrRetries.Int(int(c.to.Attempt))}
	if known.knownServer {
		attrs = append(attrs, attrServer.String(c.call.Server))
	}
	if known.knownTool {
		attrs = append(attrs, attrOurTool.String(c.call.Tool))
		if c.origin.kind == trace.SpanKindInternal {
			c.span.SetName(executeTool + " " + c.call.Tool)
			attrs = append(attrs, attrTool.String(c.call.Tool))
		}
	}
	if code, ok := rpcCode(a); ok {
		attrs = append(attrs, attrStatus.String(code))
	}
	c.span.SetAttributes(attrs...)
	fail(c.span, errorType)
	c.span.End()
	c.x.counted(c, errorType, took, known)
}

// fail marks a span as failed. The text of an error may hold arguments, so
// that its kind is all that is told.
func fail(span trace.Span, errorType string) {
	if errorType == "" {
		return
	}
	span.SetAttributes(attrErrorType.String(errorType))
	span.SetStatus(codes.Error, errorType)
}

func errorTypeOf(a *messages.Answer, outcome string) string {
	switch outcome {
	case outcomeOK:
		return ""
	case outcomeTool:
		return errorTool
	case outcomeRPC:
		if code, ok := rpcCode(a); ok {
			return code
		}
		return errorOther
	}
	return outcome
}

// rpcCode is the code of a child's JSON-RPC error, where it is a whole number.
func rpcCode(a *messages.Answer) (string, bool) {
	if a.RPCError == nil {
		return "", false
	}
	var e struct {
		Code *int64 `json:"code"`
	}
	if json.Unmarshal(a.RPCError, &e) != nil || e.Code == nil {
		return "", false
	}
	return strconv.FormatInt(*e.Code, 10), true
}
