package metamcp_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/telemetry/fakeotlp"
)

// withoutOTel is an environment in which nothing asks for telemetry.
func withoutOTel(tb testing.TB) {
	tb.Helper()
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "OTEL_") {
			tb.Setenv(name, "")
		}
	}
}

// A Go program that embeds the engine sees its calls below its own spans, and
// the child is told of them.
func TestCallsBelongToTheSpansOfTheProgram(t *testing.T) {
	withoutOTel(t)
	c := fakeotlp.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	e := open(t, map[string][]string{"one": nil}, nil)
	id, _ := trace.TraceIDFromHex("0af7651916cd43dd8448eb211c80319c")
	span, _ := trace.SpanIDFromHex("b7ad6b7169203331")
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span, TraceFlags: trace.FlagsSampled}))
	res, err := e.Execute(ctx, "one", "meta", nil, metamcp.ExecuteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	closing, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := e.Close(closing); err != nil {
		t.Fatal(err)
	}
	var call, attempt *tracepb.Span
	for _, s := range c.Spans() {
		if s.GetKind() == tracepb.Span_SPAN_KIND_CLIENT {
			attempt = s
		} else {
			call = s
		}
	}
	if hex.EncodeToString(call.GetParentSpanId()) != span.String() || !bytes.Equal(attempt.GetParentSpanId(), call.GetSpanId()) {
		t.Errorf("the spans are\n%s", c.Text())
	}
	if want := "00-" + id.String() + "-" + hex.EncodeToString(attempt.GetSpanId()) + "-01"; !strings.Contains(string(res.Raw), want) {
		t.Errorf("the child was told %s, not %s", res.Raw, want)
	}
}

// One call of a real child, and what telemetry adds to it.
func BenchmarkCallTelemetry(b *testing.B) {
	tests := []struct {
		name  string
		setup func(b *testing.B) map[string]any
		begin func(b *testing.B, e *metamcp.Engine)
	}{
		{"off", func(*testing.B) map[string]any { return nil }, nil},
		{"metrics", func(*testing.B) map[string]any {
			return map[string]any{"telemetry": map[string]any{"metricsAddr": "0"}}
		}, func(b *testing.B, e *metamcp.Engine) {
			if _, err := e.ServeMetrics(); err != nil {
				b.Fatal(err)
			}
		}},
		{"otlp", func(b *testing.B) map[string]any {
			b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", fakeotlp.Start(b).URL)
			return nil
		}, nil},
		{"otlp-down", func(b *testing.B) map[string]any {
			c := fakeotlp.Start(b)
			c.Refuse(http.StatusForbidden)
			b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
			return nil
		}, nil},
	}
	for _, tt := range tests {
		b.Run(tt.name, func(b *testing.B) {
			withoutOTel(b)
			e := open(b, map[string][]string{"one": nil}, tt.setup(b))
			if tt.begin != nil {
				tt.begin(b, e)
			}
			args := json.RawMessage(`{"text":"hello"}`)
			if _, err := e.Execute(b.Context(), "one", "echo", args, metamcp.ExecuteOptions{}); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Execute(b.Context(), "one", "echo", args, metamcp.ExecuteOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
