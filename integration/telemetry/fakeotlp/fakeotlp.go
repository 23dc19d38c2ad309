// Package fakeotlp is a fake of an OpenTelemetry collector, for tests: it takes
// spans and metrics over OTLP, by HTTP or gRPC, and decodes the real protobuf.
// It can refuse what it is sent, or not answer.
package fakeotlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// Collector is the fake. Its methods are safe for any goroutine.
type Collector struct {
	// URL is what OTEL_EXPORTER_OTLP_ENDPOINT is set to.
	URL string

	hold <-chan struct{} // nil: it answers at once

	mu      sync.Mutex
	status  int // of the answers; 0: success
	asked   int
	spans   []*tracepb.ResourceSpans
	metrics []*metricspb.ResourceMetrics
	headers []http.Header
}

// Start starts a collector that speaks OTLP over HTTP and ends with the test.
func Start(tb testing.TB) *Collector {
	tb.Helper()
	return start(tb, nil)
}

// StartHanging starts one that answers nothing before release is called; the
// end of the test calls it as well.
func StartHanging(tb testing.TB) (c *Collector, release func()) {
	tb.Helper()
	hold := make(chan struct{})
	release = sync.OnceFunc(func() { close(hold) })
	c = start(tb, hold)
	tb.Cleanup(release) // before the server waits for its requests
	return c, release
}

func start(tb testing.TB, hold <-chan struct{}) *Collector {
	c := &Collector{hold: hold}
	srv := httptest.NewServer(c)
	tb.Cleanup(srv.Close)
	c.URL = srv.URL
	return c
}

// StartGRPC is Start for OTLP over gRPC.
func StartGRPC(tb testing.TB) *Collector {
	tb.Helper()
	l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	c := &Collector{URL: "http://" + l.Addr().String()}
	srv := grpc.NewServer()
	collectortrace.RegisterTraceServiceServer(srv, grpcSpans{c: c})
	collectormetrics.RegisterMetricsServiceServer(srv, grpcMetrics{c: c})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	tb.Cleanup(func() {
		srv.Stop()
		if err := <-served; err != nil {
			tb.Errorf("the fake collector: %v", err)
		}
	})
	return c
}

type grpcSpans struct {
	collectortrace.UnimplementedTraceServiceServer
	c *Collector
}

func (s grpcSpans) Export(_ context.Context, r *collectortrace.ExportTraceServiceRequest) (*collectortrace.ExportTraceServiceResponse, error) {
	s.c.take(r.GetResourceSpans(), nil)
	return &collectortrace.ExportTraceServiceResponse{}, nil
}

type grpcMetrics struct {
	collectormetrics.UnimplementedMetricsServiceServer
	c *Collector
}

func (s grpcMetrics) Export(_ context.Context, r *collectormetrics.ExportMetricsServiceRequest) (*collectormetrics.ExportMetricsServiceResponse, error) {
	s.c.take(nil, r.GetResourceMetrics())
	return &collectormetrics.ExportMetricsServiceResponse{}, nil
}

// Refuse makes the collector answer with an HTTP status; 0 makes it take
// everything again.
func (c *Collector) Refuse(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = status
}

// ServeHTTP implements http.Handler.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := read(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if c.hold != nil {
		select {
		case <-c.hold:
		case <-r.Context().Done():
			return
		}
	}
	c.mu.Lock()
	c.asked++
	status := c.status
	c.headers = append(c.headers, r.Header.Clone())
	c.mu.Unlock()
	if status != 0 {
		http.Error(w, "refused, as told", status)
		return
	}
	var spans collectortrace.ExportTraceServiceRequest
	var metrics collectormetrics.ExportMetricsServiceRequest
	switch r.URL.Path {
	case "/v1/traces":
		err = proto.Unmarshal(body, &spans)
	case "/v1/metrics":
		err = proto.Unmarshal(body, &metrics)
	default:
		err = fmt.Errorf("no such path: %s", r.URL.Path)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.take(spans.GetResourceSpans(), metrics.GetResourceMetrics())
}

func read(r *http.Request) ([]byte, error) {
	const most = 64 << 20
	body := io.LimitReader(r.Body, most)
	if r.Header.Get("Content-Encoding") == "gzip" {
		zip, err := gzip.NewReader(body)
		if err != nil {
			return nil, err
		}
		body = zip
	}
	return io.ReadAll(body)
}

func (c *Collector) take(spans []*tracepb.ResourceSpans, metrics []*metricspb.ResourceMetrics) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spans = append(c.spans, spans...)
	c.metrics = append(c.metrics, metrics...)
}

// Asked is how many requests were answered over HTTP.
func (c *Collector) Asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// Headers are those of all requests over HTTP.
func (c *Collector) Headers() []http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]http.Header(nil), c.headers...)
}

// Spans are all that came, in that order.
func (c *Collector) Spans() []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*tracepb.Span
	for _, r := range c.spans {
		for _, s := range r.GetScopeSpans() {
			out = append(out, s.GetSpans()...)
		}
	}
	return out
}

// Resource are the attributes of who sent the first spans or metrics.
func (c *Collector) Resource() map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.spans) > 0:
		return Attributes(c.spans[0].GetResource().GetAttributes())
	case len(c.metrics) > 0:
		return Attributes(c.metrics[0].GetResource().GetAttributes())
	}
	return nil
}

// Metrics are the newest state of each metric, by name.
func (c *Collector) Metrics() map[string]*metricspb.Metric {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]*metricspb.Metric{}
	for _, r := range c.metrics {
		for _, s := range r.GetScopeMetrics() {
			for _, m := range s.GetMetrics() {
				out[m.GetName()] = m
			}
		}
	}
	return out
}

// Text is everything that came, as text, to look for what must not be in it.
func (c *Collector) Text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b bytes.Buffer
	for _, s := range c.spans {
		b.WriteString(prototext.Format(s))
	}
	for _, m := range c.metrics {
		b.WriteString(prototext.Format(m))
	}
	return b.String()
}

// Attributes makes a map of attributes: strings, int64s, float64s and bools.
func Attributes(list []*commonpb.KeyValue) map[string]any {
	out := map[string]any{}
	for _, kv := range list {
		switch v := kv.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			out[kv.GetKey()] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			out[kv.GetKey()] = v.IntValue
		case *commonpb.AnyValue_DoubleValue:
			out[kv.GetKey()] = v.DoubleValue
		case *commonpb.AnyValue_BoolValue:
			out[kv.GetKey()] = v.BoolValue
		}
	}
	return out
}
