package telemetry

import (
	"context"
	"encoding/json"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/metamcp/metamcp/messages"
)

// The members of a request's _meta that W3C's names go by, unprefixed.
const (
	keyParent  = "traceparent"
	keyState   = "tracestate"
	keyBaggage = "baggage"
)

var propagator propagation.TraceContext

// passedOn is a trace context that goes to the child as it came.
type passedOn []byte

// Sending implements messages.SendPort.
func (p passedOn) Sending(messages.Sending) []byte { return p }

// passOn returns nil where there is nothing to pass on.
func passOn(tc messages.TraceContext) passedOn {
	n := len(tc.Parent) + len(tc.State) + len(tc.Baggage)
	if n == 0 {
		return nil
	}
	out := make([]byte, 0, n+len(`"traceparent":,"tracestate":,"baggage":`))
	out = appendMember(out, keyParent, tc.Parent)
	out = appendMember(out, keyState, tc.State)
	return appendMember(out, keyBaggage, tc.Baggage)
}

// appendMember appends a member whose value is JSON already.
func appendMember(dst []byte, name string, value json.RawMessage) []byte {
	if len(value) == 0 {
		return dst
	}
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	dst = append(dst, '"')
	dst = append(dst, name...)
	dst = append(dst, `":`...)
	return append(dst, value...)
}

func appendText(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	quoted, _ := json.Marshal(value) // a string always marshals
	return appendMember(dst, name, quoted)
}

// contextOf returns a context with the remote span of tc, if it names one that
// is valid.
func contextOf(tc messages.TraceContext) context.Context {
	ctx := context.Background()
	if len(tc.Parent) == 0 {
		return ctx
	}
	carrier := propagation.MapCarrier{}
	for name, raw := range map[string]json.RawMessage{keyParent: tc.Parent, keyState: tc.State} {
		var text string
		if len(raw) > 0 && json.Unmarshal(raw, &text) == nil {
			carrier[name] = text
		}
	}
	return propagator.Extract(ctx, carrier)
}

// membersOf returns what tells a child of the span in ctx and of its baggage;
// nil where there is neither.
func membersOf(ctx context.Context) []byte {
	var members []byte
	if trace.SpanContextFromContext(ctx).IsValid() {
		carrier := propagation.MapCarrier{}
		propagator.Inject(ctx, carrier)
		members = appendText(members, keyParent, carrier[keyParent])
		members = appendText(members, keyState, carrier[keyState])
	}
	if bag := baggageOf(ctx); bag != nil {
		if members != nil {
			members = append(members, ',')
		}
		members = append(members, bag...)
	}
	return members
}

func baggageOf(ctx context.Context) []byte {
	return appendText(nil, keyBaggage, baggage.FromContext(ctx).String())
}
