package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
)

// complainEvery is the least time between two lines of the log about a
// collector that does not take what it is sent.
const complainEvery = time.Minute

// guard keeps an exporter's failures from everybody: they are counted, and
// logged now and then.
type guard struct {
	signal string
	log    *slog.Logger
	// cut ends when the host does not wait any more.
	cut      context.Context
	done     chan struct{} // closed when the SDK has shut the exporter down
	failures atomic.Uint64

	mu     sync.Mutex
	said   time.Time
	unsaid int
}

// run calls export, which ends with the guard.
func (g *guard) run(ctx context.Context, export func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keep := context.AfterFunc(g.cut, cancel)
	defer keep()
	if err := export(ctx); err != nil {
		g.failed(err)
	}
}

func (g *guard) failed(err error) {
	g.failures.Add(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.said.IsZero() && time.Since(g.said) < complainEvery {
		g.unsaid++
		return
	}
	const enough = 300 // a collector's answer may be a whole page
	text := err.Error()
	if len(text) > enough {
		text = text[:enough] + "…"
	}
	g.log.Warn("the collector did not take what it was sent; calls are not affected", "signal", g.signal, "error", text, "failuresSinceLast", g.unsaid)
	g.said, g.unsaid = time.Now(), 0
}

// spanGuard implements trace.SpanExporter.
type spanGuard struct {
	*guard
	to trace.SpanExporter
}

func (g spanGuard) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	g.run(ctx, func(ctx context.Context) error { return g.to.ExportSpans(ctx, spans) })
	return nil
}

func (g spanGuard) Shutdown(ctx context.Context) error {
	defer close(g.done) // once, as the SDK has it
	return g.to.Shutdown(ctx)
}

// metricGuard implements metric.Exporter.
type metricGuard struct {
	*guard
	to metric.Exporter
}

func (g metricGuard) Temporality(k metric.InstrumentKind) metricdata.Temporality {
	return g.to.Temporality(k)
}

func (g metricGuard) Aggregation(k metric.InstrumentKind) metric.Aggregation {
	return g.to.Aggregation(k)
}

func (g metricGuard) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	g.run(ctx, func(ctx context.Context) error { return g.to.Export(ctx, m) })
	return nil
}

func (g metricGuard) ForceFlush(ctx context.Context) error { return g.to.ForceFlush(ctx) }

func (g metricGuard) Shutdown(ctx context.Context) error {
	defer close(g.done)
	return g.to.Shutdown(ctx)
}
