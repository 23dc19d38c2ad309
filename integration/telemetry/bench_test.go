package telemetry_test

import (
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/telemetry"
	"github.com/metamcp/metamcp/integration/telemetry/fakeotlp"
	"github.com/metamcp/metamcp/messages"
)

// What telemetry costs a call, without the call.
func BenchmarkTelemetry(b *testing.B) {
	answer := &messages.Answer{Result: []byte(`{"content":[]}`)}
	for _, bb := range []struct {
		name     string
		otlp     bool
		scraped  bool
		incoming messages.TraceContext
	}{
		{"off", false, false, messages.TraceContext{}},
		{"off with a trace context", false, false, incoming},
		{"scraped", false, true, messages.TraceContext{}},
		{"otlp", true, false, incoming},
	} {
		b.Run(bb.name, func(b *testing.B) {
			if bb.otlp {
				b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", fakeotlp.Start(b).URL)
			}
			tel := telemetry.New(newHost().options())
			b.Cleanup(func() { _ = tel.Close(b.Context()) })
			if bb.scraped {
				if _, err := tel.Serve("0"); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				call := newCall(1, "files", "read")
				tel.BeginRequest(call, bb.incoming, messages.EraLegacy, messages.TransportStdio)
				if call.Sending != nil {
					call.Sending.Sending(stdio)
				}
				tel.Ended(call, answer, "ok", time.Millisecond)
			}
		})
	}
}
