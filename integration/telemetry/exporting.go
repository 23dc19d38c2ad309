package telemetry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// scope names who made the spans and metrics.
const scope = "github.com/metamcp/metamcp"

// A collector that is slow or refuses for a while is tried again, briefly:
// spans wait meanwhile, and their queue is bounded.
const (
	retryFirst = time.Second
	retryMost  = 5 * time.Second
	retryTotal = 15 * time.Second
)

// cutTime is how long what was given up may take to end.
const cutTime = time.Second

// exporting is the SDK at work.
type exporting struct {
	t      *Telemetry
	tracer trace.Tracer

	spans   *sdktrace.TracerProvider // nil: no spans
	metrics *sdkmetric.MeterProvider // nil: no metrics
	guards  []*guard
	cut     context.CancelFunc

	serverDuration, clientDuration, callDuration metric.Float64Histogram // nil: no metrics
}

// LogSDK makes the OpenTelemetry SDK log to log instead of stderr. That is for
// the whole process, so it is a program that calls it and no library, before it
// opens an engine.
func LogSDK(log *slog.Logger) {
	otel.SetLogger(logr.New(quiet{log}))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("telemetry has a problem", "error", kindOf(err)) }))
}

// quiet passes on what the SDK says without the values of variables that it
// quotes: a header or an address may hold a credential.
type quiet struct{ log *slog.Logger }

func (quiet) Init(logr.RuntimeInfo) {}
func (q quiet) Enabled(level int) bool {
	return q.log.Enabled(context.Background(), slog.Level(-level))
}
func (q quiet) WithValues(...any) logr.LogSink { return q }
func (q quiet) WithName(string) logr.LogSink   { return q }
func (q quiet) Info(level int, msg string, _ ...any) {
	q.log.Log(context.Background(), slog.Level(-level), "OpenTelemetry: "+msg)
}

func (q quiet) Error(err error, msg string, _ ...any) {
	q.log.Warn("OpenTelemetry: "+msg, "error", kindOf(err))
}

// kindOf says what kind of error it is, without its text, which may quote an
// address or what a collector sent.
func kindOf(err error) string {
	var address *url.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &address) && address.Op == "parse":
		return "an OTEL_… variable holds an address that is none"
	case errors.As(err, &address):
		return fmt.Sprintf("%s: %T", address.Op, address.Err)
	}
	return fmt.Sprintf("%T; the OTEL_… variables say where it was sent", err)
}

// mostSpans bounds what OTEL_BSP_MAX_QUEUE_SIZE may ask for: the SDK makes room
// for all of them at once, and breaks with less than none.
const mostSpans = 1 << 20

// bounded is the options for the queue of spans where the environment asks for
// what cannot be.
func (t *Telemetry) bounded() []sdktrace.BatchSpanProcessorOption {
	for _, name := range []string{"OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"} {
		said := os.Getenv(name)
		if n, err := strconv.Atoi(said); said == "" || err == nil && n > 0 && n <= mostSpans {
			continue
		}
		t.log.Warn("a variable is no number from 1 to 1048576; the default holds", "variable", name)
		// Both, since the SDK derives one from the other.
		return []sdktrace.BatchSpanProcessorOption{
			sdktrace.WithMaxQueueSize(sdktrace.DefaultMaxQueueSize), sdktrace.WithMaxExportBatchSize(sdktrace.DefaultMaxExportBatchSize),
		}
	}
	return nil
}

// export starts the SDK, or returns nil where nothing can be exported.
func (t *Telemetry) export(p plan) *exporting {
	ctx, cancel := context.WithCancel(context.Background())
	x := &exporting{t: t, tracer: noop.NewTracerProvider().Tracer(scope), cut: cancel}
	res := t.resource(ctx)
	if p.traces != "" {
		if to, err := spanExporter(ctx, p.traces); err != nil {
			t.log.Error("no spans are exported", "error", err, "hint", "Correct the OTEL_EXPORTER_OTLP_… variables.")
		} else {
			x.spans = sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithBatcher(spanGuard{x.guard(ctx, "traces"), to}, t.bounded()...))
			x.tracer = x.spans.Tracer(scope, trace.WithInstrumentationVersion(t.opts.Version))
		}
	}
	if p.metrics != "" {
		if to, err := metricExporter(ctx, p.metrics); err != nil {
			t.log.Error("no metrics are exported", "error", err, "hint", "Correct the OTEL_EXPORTER_OTLP_… variables.")
		} else {
			x.metrics = sdkmetric.NewMeterProvider(sdkmetric.WithResource(res), sdkmetric.WithReader(sdkmetric.NewPeriodicReader(metricGuard{x.guard(ctx, "metrics"), to})))
			if err := x.instruments(x.metrics.Meter(scope, metric.WithInstrumentationVersion(t.opts.Version))); err != nil {
				t.log.Error("not all metrics are exported", "error", err)
			}
		}
	}
	if x.spans == nil && x.metrics == nil {
		cancel()
		return nil
	}
	return x
}

func (x *exporting) guard(cut context.Context, signal string) *guard {
	g := &guard{signal: signal, log: x.t.log, cut: cut, done: make(chan struct{})}
	x.guards = append(x.guards, g)
	return g
}

// resource says who tells; the environment has the last word.
func (t *Telemetry) resource(ctx context.Context) *resource.Resource {
	res, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(
			attribute.String("service.name", "metamcp"), attribute.String("service.version", t.opts.Version),
			attribute.String("service.instance.id", rand.Text()),
		),
		resource.WithFromEnv(),
	)
	if err != nil {
		t.log.Warn("not all of OTEL_RESOURCE_ATTRIBUTES is used", "error", err)
	}
	return res
}

func spanExporter(ctx context.Context, protocol string) (*otlptrace.Exporter, error) {
	if protocol == protocolGRPC {
		return otlptracegrpc.New(ctx, otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{
			Enabled: true, InitialInterval: retryFirst, MaxInterval: retryMost, MaxElapsedTime: retryTotal,
		}))
	}
	return otlptracehttp.New(ctx, otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
		Enabled: true, InitialInterval: retryFirst, MaxInterval: retryMost, MaxElapsedTime: retryTotal,
	}))
}

func metricExporter(ctx context.Context, protocol string) (sdkmetric.Exporter, error) {
	if protocol == protocolGRPC {
		return otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{
			Enabled: true, InitialInterval: retryFirst, MaxInterval: retryMost, MaxElapsedTime: retryTotal,
		}))
	}
	return otlpmetrichttp.New(ctx, otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{
		Enabled: true, InitialInterval: retryFirst, MaxInterval: retryMost, MaxElapsedTime: retryTotal,
	}))
}

// failures are the exports that failed, by signal.
func (x *exporting) failures() map[string]uint64 {
	if x == nil {
		return nil
	}
	out := map[string]uint64{}
	for _, g := range x.guards {
		out[g.signal] = g.failures.Load()
	}
	return out
}

// close flushes until ctx ends, both signals at the same time, and waits until
// nothing of the SDK runs.
func (x *exporting) close(ctx context.Context) {
	stop := context.AfterFunc(ctx, x.cut) // what is out then is given up
	defer stop()
	var both sync.WaitGroup
	shutdown := func(signal string, f func(context.Context) error) {
		both.Go(func() {
			if err := f(ctx); err != nil {
				x.t.log.Warn("the collector did not take the last of it in time", "signal", signal, "error", err)
			}
		})
	}
	if x.spans != nil {
		shutdown("traces", x.spans.Shutdown)
	}
	if x.metrics != nil {
		shutdown("metrics", x.metrics.Shutdown)
	}
	both.Wait()
	x.cut()
	limit := time.NewTimer(cutTime)
	defer limit.Stop()
	for _, g := range x.guards {
		select {
		case <-g.done:
		case <-limit.C:
			return
		}
	}
}
