package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// conventionalDurations are the bounds that the conventions ask for.
var conventionalDurations = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}

// instruments makes all metrics. Those that it could not make are in the
// error; the others work.
func (x *exporting) instruments(meter metric.Meter) error {
	var errs []error
	histogram := func(name, help string) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(help), metric.WithExplicitBucketBoundaries(conventionalDurations...))
		errs = append(errs, err)
		return h
	}
	x.serverDuration = histogram("mcp.server.operation.duration", "MCP request duration as observed on the receiver, from a client's call to its answer.")
	x.clientDuration = histogram("mcp.client.operation.duration", "The duration of the MCP request as observed on the sender, from one attempt at a server to its answer.")
	x.callDuration = histogram("metamcp.call.duration", "Duration of a call that a Go program made through the library, or a script.")
	errs = append(errs, x.observe(meter))
	return errors.Join(errs...)
}

// observe makes the metrics that are read from the host's description.
func (x *exporting) observe(meter metric.Meter) error {
	var errs []error
	all := make([]metric.Float64Observable, 0, len(statusSeries))
	observables := make([]metric.Observable, 0, len(statusSeries))
	for i := range statusSeries {
		s := &statusSeries[i]
		unit := s.unit
		if unit == "" {
			unit = "1"
		}
		var o metric.Float64Observable
		var err error
		if s.counter {
			o, err = meter.Float64ObservableCounter("metamcp."+s.dotted, metric.WithUnit(unit), metric.WithDescription(s.help))
		} else {
			o, err = meter.Float64ObservableGauge("metamcp."+s.dotted, metric.WithUnit(unit), metric.WithDescription(s.help))
		}
		errs = append(errs, err)
		all, observables = append(all, o), append(observables, o)
	}
	_, err := meter.RegisterCallback(func(ctx context.Context, out metric.Observer) error {
		snap, err := x.t.snapshot(ctx, x.failures()) // x.t.exporting may not be set yet
		if err != nil {
			return err
		}
		for i := range statusSeries {
			s := &statusSeries[i]
			s.read(snap, func(value float64, labels ...string) {
				attrs := make([]attribute.KeyValue, len(labels))
				for n, l := range labels {
					attrs[n] = attribute.String(dottedLabel(s.labels[n]), utf8(l))
				}
				out.ObserveFloat64(all[i], value, metric.WithAttributes(attrs...))
			})
		}
		return nil
	}, observables...)
	return errors.Join(append(errs, err)...)
}

// dottedLabel is a label of ours in the style of OpenTelemetry.
func dottedLabel(name string) string {
	if name == "server" {
		return string(attrServer)
	}
	return "metamcp." + name
}

// counted records how long a call took.
func (x *exporting) counted(c *callSpan, errorType string, took time.Duration, known label) {
	if x.metrics == nil {
		return
	}
	attrs := append(append(c.frontAttributes(), operation(c.call)...), attrServer.String(known.server))
	if known.tool != toolsUnnamed {
		attrs = append(attrs, attrOurTool.String(known.tool))
	}
	if v := versionOf(c.origin.era); v != "" {
		attrs = append(attrs, attrVersion.String(v))
	}
	if errorType != "" {
		attrs = append(attrs, attrErrorType.String(bounded(errorType)))
	}
	h := x.callDuration
	if c.origin.kind == trace.SpanKindServer {
		h = x.serverDuration
	}
	h.Record(c.ctx, took.Seconds(), metric.WithAttributes(attrs...))
}
