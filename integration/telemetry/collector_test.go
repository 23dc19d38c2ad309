package telemetry_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/metamcp/metamcp/integration/telemetry"
	"github.com/metamcp/metamcp/integration/telemetry/fakeotlp"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

// makeCalls makes n calls with one attempt each.
func makeCalls(tel *telemetry.Telemetry, n int) {
	for i := range n {
		call := newCall(uint64(i+1), "files", "read")
		tel.BeginRequest(call, messages.TraceContext{}, messages.EraLegacy, messages.TransportStdio)
		call.Sending.Sending(stdio)
		tel.Ended(call, &messages.Answer{Result: []byte("{}")}, "ok", time.Millisecond)
	}
}

func TestProtocols(t *testing.T) {
	tests := []struct {
		name  string
		start func(testing.TB) *fakeotlp.Collector
		vars  []string
	}{
		{"http/protobuf is the default", fakeotlp.Start, nil},
		{"http/protobuf with gzip", fakeotlp.Start, []string{"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_EXPORTER_OTLP_COMPRESSION=gzip"}},
		{"an unknown one", fakeotlp.Start, []string{"OTEL_EXPORTER_OTLP_PROTOCOL=pigeon"}},
		{"grpc", fakeotlp.StartGRPC, []string{"OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}},
		{"grpc for one signal", fakeotlp.StartGRPC, []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL=grpc"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			noLeaks(t)
			c := tt.start(t)
			environment(t, append(tt.vars, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, "OTEL_SERVICE_NAME=mine", "OTEL_RESOURCE_ATTRIBUTES=team=blue")...)
			h := newHost()
			tel := h.start(t)
			makeCalls(tel, 10)
			end(t, tel)
			if got := len(c.Spans()); got != 20 {
				t.Errorf("%d spans came, not 20; log:\n%s", got, &h.log)
			}
			if c.Metrics()["mcp.server.operation.duration"] == nil {
				t.Errorf("no metrics came; log:\n%s", &h.log)
			}
			r := c.Resource()
			if r["service.name"] != "mine" || r["team"] != "blue" || r["service.version"] != "1.2.3" || r["service.instance.id"] == nil {
				t.Errorf("the resource is %v", r)
			}
			if unknown := h.log.count("is not known"); (unknown > 0) != strings.Contains(tt.name, "unknown") {
				t.Errorf("log:\n%s", &h.log)
			}
		})
	}
}

func TestSignalsAndHeaders(t *testing.T) {
	tests := []struct {
		name           string
		vars           []string
		spans, metrics bool
	}{
		{"both", nil, true, true},
		{"no traces", []string{"OTEL_TRACES_EXPORTER=none"}, false, true},
		{"no metrics", []string{"OTEL_METRICS_EXPORTER=none"}, true, false},
		{"another exporter", []string{"OTEL_TRACES_EXPORTER=zipkin", "OTEL_METRICS_EXPORTER=otlp,console"}, false, true},
		{"disabled", []string{"OTEL_SDK_DISABLED=TRUE"}, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tel, c, h := collected(t, append(tt.vars, "OTEL_EXPORTER_OTLP_HEADERS=x-key=hunter2")...)
			if tel.Exporting() != (tt.spans || tt.metrics) {
				t.Errorf("exporting: %v", tel.Exporting())
			}
			if tel.Exporting() {
				makeCalls(tel, 3)
			}
			end(t, tel)
			if got := len(c.Spans()) > 0; got != tt.spans {
				t.Errorf("spans: %v", got)
			}
			if got := len(c.Metrics()) > 0; got != tt.metrics {
				t.Errorf("metrics: %v", got)
			}
			for _, header := range c.Headers() {
				if header.Get("X-Key") != "hunter2" {
					t.Errorf("headers: %v", header)
				}
			}
			if h.log.count("hunter2") > 0 {
				t.Errorf("a header is in the log:\n%s", &h.log)
			}
		})
	}
	t.Run("a signal's own endpoint", func(t *testing.T) {
		noLeaks(t)
		c := fakeotlp.Start(t)
		environment(t, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+c.URL+"/v1/traces")
		tel := newHost().start(t)
		makeCalls(tel, 1)
		end(t, tel)
		if len(c.Spans()) != 2 || len(c.Metrics()) != 0 {
			t.Errorf("%d spans and %d metrics", len(c.Spans()), len(c.Metrics()))
		}
	})
}

// What the collector does not take is dropped beyond a bound, said once, and
// hurts no call.
func TestBadCollectors(t *testing.T) {
	refusing := func(status int) func(*testing.T) string {
		return func(t *testing.T) string {
			c := fakeotlp.Start(t)
			c.Refuse(status)
			return c.URL
		}
	}
	tests := []struct {
		name string
		url  func(t *testing.T) string
	}{
		{"down", func(t *testing.T) string {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			return "http://" + l.Addr().String()
		}},
		{"refusing", refusing(http.StatusForbidden)},
		{"overloaded", refusing(http.StatusServiceUnavailable)},
		{"hanging", func(t *testing.T) string { c, _ := fakeotlp.StartHanging(t); return c.URL }},
		{"no collector", func(t *testing.T) string {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }))
			t.Cleanup(srv.Close)
			return srv.URL
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			noLeaks(t)
			environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+tt.url(t), "OTEL_BSP_SCHEDULE_DELAY=5", "OTEL_METRIC_EXPORT_INTERVAL=5")
			h := newHost()
			tel := h.start(t)
			makeCalls(tel, 5000)
			end(t, tel)
			for _, signal := range []string{"traces", "metrics"} {
				if n := h.log.count("did not take what it was sent; calls are not affected\" signal=" + signal); n > 1 {
					t.Errorf("%d lines in the log about %s:\n%s", n, signal, &h.log)
				}
			}
		})
	}
}

func TestFailuresAreLoggedOnceAMinuteAndCounted(t *testing.T) {
	noLeaks(t)
	c := fakeotlp.Start(t)
	c.Refuse(http.StatusForbidden)
	environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, "OTEL_METRICS_EXPORTER=none", "OTEL_BSP_SCHEDULE_DELAY=1")
	h := newHost()
	tel := h.start(t)
	testkit.Eventually(t, wait, func() error {
		makeCalls(tel, 1)
		if n := c.Asked(); n < 5 {
			return fmt.Errorf("the collector was asked %d times", n)
		}
		return nil
	})
	if n := h.log.count("did not take what it was sent"); n != 1 {
		t.Errorf("%d lines in the log:\n%s", n, &h.log)
	}
	if v := value(t, scrape(t, tel), "metamcp_telemetry_export_failures_total", "signal", "traces"); v < 4 {
		t.Errorf("%v failures were counted", v)
	}
	c.Refuse(0)
	makeCalls(tel, 1)
	end(t, tel)
	if len(c.Spans()) == 0 {
		t.Error("nothing came after the collector was well again")
	}
}

// While nobody takes them no more spans wait than the queue holds.
func TestSpansThatWaitAreBounded(t *testing.T) {
	noLeaks(t)
	c, release := fakeotlp.StartHanging(t)
	environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, "OTEL_METRICS_EXPORTER=none", "OTEL_BSP_MAX_QUEUE_SIZE=100", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=50")
	tel := newHost().start(t)
	makeCalls(tel, 5000)
	release()
	end(t, tel)
	if n := len(c.Spans()); n == 0 || n > 100+2*50 {
		t.Errorf("%d of 10000 spans were kept; the queue holds 100", n)
	}
}

func TestMetricsOverOTLP(t *testing.T) {
	tel, c, h := collected(t)
	makeCalls(tel, 3)
	call := newCall(9, "hunter2", "hunter2")
	tel.BeginRequest(call, messages.TraceContext{}, messages.EraModern, messages.TransportStdio)
	tel.Ended(call, &messages.Answer{Err: &messages.Error{Code: messages.CodeServerNotFound}}, string(messages.CodeServerNotFound), time.Second)
	end(t, tel)

	metrics := c.Metrics()
	duration := metrics["mcp.server.operation.duration"]
	if duration.GetUnit() != "s" || len(duration.GetHistogram().GetDataPoints()) != 2 {
		t.Fatalf("%v; log:\n%s", duration, &h.log)
	}
	counts := map[any]uint64{}
	for _, p := range duration.GetHistogram().GetDataPoints() {
		attrs := fakeotlp.Attributes(p.GetAttributes())
		counts[fmt.Sprint(attrs["metamcp.server.name"], " ", attrs["metamcp.tool.name"], " ", attrs["error.type"], " ", attrs["mcp.method.name"])] = p.GetCount()
		if len(p.GetExplicitBounds()) != 14 || p.GetExplicitBounds()[0] != 0.01 {
			t.Errorf("bounds are %v", p.GetExplicitBounds())
		}
	}
	if counts["files read <nil> tools/call"] != 3 || counts["_unknown _unknown SERVER_NOT_FOUND tools/call"] != 1 {
		t.Errorf("calls by server, tool and error: %v", counts)
	}
	if p := metrics["mcp.client.operation.duration"].GetHistogram().GetDataPoints(); len(p) != 1 || p[0].GetCount() != 3 || fakeotlp.Attributes(p[0].GetAttributes())["gen_ai.tool.name"] != "read" {
		t.Errorf("attempts: %v", p)
	}
	for name, want := range map[string]float64{
		"metamcp.calls": 40, "metamcp.calls.active": 3, "metamcp.pool.waiters": 6, "metamcp.pool.evictions": 9, "metamcp.server.spawns": 3, "metamcp.queue.drops": 11,
	} {
		if got := points(metrics[name]); len(got) != 1 || got[0].GetAsDouble() != want {
			t.Errorf("%s is %v, not %v", name, got, want)
		}
	}
	if !metrics["metamcp.calls"].GetSum().GetIsMonotonic() {
		t.Error("metamcp.calls is no counter")
	}
	if strings.Contains(c.Text(), "hunter2") {
		t.Error("what a client made up was exported")
	}
}

func points(m *metricspb.Metric) []*metricspb.NumberDataPoint {
	return append(m.GetSum().GetDataPoints(), m.GetGauge().GetDataPoints()...)
}
