package telemetry_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/metamcp/metamcp/integration/telemetry"
	"github.com/metamcp/metamcp/messages"
)

type families map[string]*dto.MetricFamily

func parse(t *testing.T, r io.Reader) families {
	t.Helper()
	p := expfmt.NewTextParser(model.UTF8Validation)
	f, err := p.TextToMetricFamilies(r)
	if err != nil {
		t.Fatalf("the metrics are not what Prometheus reads: %v", err)
	}
	return f
}

// scrape reads /metrics without a socket.
func scrape(t *testing.T, tel *telemetry.Telemetry) families {
	t.Helper()
	w := httptest.NewRecorder()
	tel.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("/metrics: %d: %s", w.Code, w.Body)
	}
	return parse(t, w.Body)
}

// value is that of the series with the given labels, names and values in turn.
func value(t *testing.T, f families, name string, labels ...string) float64 {
	t.Helper()
	for _, m := range f[name].GetMetric() {
		if !labelled(m, labels) {
			continue
		}
		switch {
		case m.Counter != nil:
			return m.GetCounter().GetValue()
		case m.Gauge != nil:
			return m.GetGauge().GetValue()
		case m.Histogram != nil:
			return float64(m.GetHistogram().GetSampleCount())
		}
	}
	t.Errorf("there is no %s with %v in %v", name, labels, f[name])
	return 0
}

func labelled(m *dto.Metric, labels []string) bool {
	got := map[string]string{}
	for _, l := range m.GetLabel() {
		got[l.GetName()] = l.GetValue()
	}
	for pair := range slices.Chunk(labels, 2) {
		if v, ok := got[pair[0]]; !ok || v != pair[1] {
			return false
		}
	}
	return true
}

func TestMetricsForPrometheus(t *testing.T) {
	noLeaks(t)
	environment(t)
	h := newHost()
	tel := h.start(t)
	ended := func(server, tool, outcome string) {
		tel.Ended(newCall(1, server, tool), &messages.Answer{}, outcome, 3*time.Millisecond)
	}
	ended("files", "read", "ok") // before anybody scraped
	if f := scrape(t, tel); f["metamcp_call_duration_seconds"] != nil {
		t.Errorf("durations were recorded before the first scrape: %v", f["metamcp_call_duration_seconds"])
	}
	ended("files", "read", "ok")
	ended("files", "read", "ok")
	ended("files", "write", "tool-error")
	ended("files", "hunter2", "TOOL_NOT_FOUND")
	ended("hunter2", "hunter2", "SERVER_NOT_FOUND")
	f := scrape(t, tel)
	tests := []struct {
		want   float64
		name   string
		labels []string
	}{
		{1, "metamcp_build_info", []string{"version", "1.2.3"}},
		{40, "metamcp_calls_total", nil},
		{5, "metamcp_calls_failed_total", nil},
		{3, "metamcp_calls_in_flight", nil},
		{2, "metamcp_sessions", nil},
		{0, "metamcp_draining", nil},
		{20, "metamcp_pool_places", []string{"kind", "regular"}},
		{4, "metamcp_pool_places", []string{"kind", "reserve"}},
		{7, "metamcp_pool_places_used", []string{"kind", "regular"}},
		{1, "metamcp_pool_places_used", []string{"kind", "reserve"}},
		{2, "metamcp_pool_idle_connections", nil},
		{6, "metamcp_pool_waiters", nil},
		{1024, "metamcp_pool_waiters_limit", nil},
		{9, "metamcp_pool_evictions_total", nil},
		{1, "metamcp_servers", []string{"state", "DISABLED"}},
		{1, "metamcp_server_breaker_state", []string{"server", "files", "state", "open"}},
		{0, "metamcp_server_breaker_state", []string{"server", "files", "state", "closed"}},
		{4, "metamcp_server_breaker_transitions_total", []string{"server", "files", "to", "open"}},
		{1, "metamcp_server_connections", []string{"server", "files", "state", "IDLE"}},
		{2, "metamcp_server_calls_in_flight", []string{"server", "files"}},
		{3, "metamcp_server_spawns_total", []string{"server", "files"}},
		{2, "metamcp_server_exits_total", []string{"server", "files"}},
		{1, "metamcp_server_retries_total", []string{"server", "files"}},
		{11, "metamcp_queue_drops_total", []string{"queue", "trace"}},
		{2, "metamcp_call_duration_seconds", []string{"server", "files", "tool", "read", "outcome", "ok"}},
		{1, "metamcp_call_duration_seconds", []string{"server", "files", "tool", "write", "outcome", "tool-error"}},
		{1, "metamcp_call_duration_seconds", []string{"server", "files", "tool", "_unknown", "outcome", "TOOL_NOT_FOUND"}},
		{1, "metamcp_call_duration_seconds", []string{"server", "_unknown", "tool", "_unknown", "outcome", "SERVER_NOT_FOUND"}},
	}
	for _, tt := range tests {
		if got := value(t, f, tt.name, tt.labels...); got != tt.want {
			t.Errorf("%s%v is %v, not %v", tt.name, tt.labels, got, tt.want)
		}
	}
	for name, family := range f {
		if family.GetHelp() == "" || !strings.HasPrefix(name, "metamcp_") && !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") && !strings.HasPrefix(name, "promhttp_") {
			t.Errorf("%s: help %q", name, family.GetHelp())
		}
		if counter := family.GetType() == dto.MetricType_COUNTER; counter != strings.HasSuffix(name, "_total") {
			t.Errorf("%s is a %s", name, family.GetType())
		}
		if strings.Contains(family.String(), "hunter2") {
			t.Errorf("what a client made up is in %s", name)
		}
	}
	for _, m := range f["metamcp_server_spawns_total"].GetMetric() {
		if labelled(m, []string{"server", "unused"}) {
			t.Error("there are series of a server that nobody used")
		}
	}
}

func TestToolLimit(t *testing.T) {
	tests := []struct {
		limit int
		want  map[string]int // calls by tool
	}{
		{0, map[string]int{"": 3}},
		{1, map[string]int{"read": 2, "_other": 1}},
		{2, map[string]int{"read": 2, "write": 1}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.limit), func(t *testing.T) {
			environment(t)
			opts := newHost().options()
			opts.ToolLimit = tt.limit
			tel := telemetry.New(opts)
			t.Cleanup(func() { end(t, tel) })
			scrape(t, tel)
			for _, tool := range []string{"read", "write", "read"} {
				tel.Ended(newCall(1, "files", tool), &messages.Answer{}, "ok", time.Second)
			}
			got := map[string]int{}
			for _, m := range scrape(t, tel)["metamcp_call_duration_seconds"].GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetName() == "tool" {
						got[l.GetValue()] += int(m.GetHistogram().GetSampleCount())
					}
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("calls by tool are %v, not %v", got, tt.want)
			}
		})
	}
}

// get asks a host over HTTP.
func get(t *testing.T, url, hostHeader string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = hostHeader
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestServe(t *testing.T) {
	noLeaks(t)
	environment(t)
	h := newHost()
	tel := h.start(t)
	addr, err := tel.Serve("0")
	if err != nil {
		t.Fatal(err)
	}
	if tcp, ok := addr.(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		t.Errorf("a port alone listens at %s", addr)
	}
	url := "http://" + addr.String()
	ask := func(path, host string, want int, text string) {
		t.Helper()
		status, body := get(t, url+path, host)
		if status != want || !strings.Contains(body, text) {
			t.Errorf("%s (host %q): %d %q; want %d %q", path, host, status, body, want, text)
		}
	}
	ask("/metrics", "", http.StatusOK, "metamcp_calls_total 40")
	ask("/healthz", "", http.StatusOK, "ok")
	looks := h.looks.Load()
	ask("/readyz", "localhost:80", http.StatusOK, "ok")
	ask("/readyz", "[::1]", http.StatusOK, "ok")
	if n := h.looks.Load() - looks; n > 0 {
		t.Errorf("for /readyz all servers were described %d times", n)
	}
	ask("/metrics", "evil.example", http.StatusForbidden, "local names")
	ask("/", "", http.StatusNotFound, "")

	draining := *h.status.Load()
	draining.Draining = true
	h.status.Store(&draining)
	ask("/readyz", "", http.StatusServiceUnavailable, "no new calls")
	ask("/healthz", "", http.StatusOK, "ok")
	h.failed.Store(true)
	ask("/readyz", "", http.StatusServiceUnavailable, "does not answer")
	ask("/metrics", "", http.StatusInternalServerError, "does not answer")
	h.sick.Store(true)
	ask("/healthz", "", http.StatusServiceUnavailable, "gave up")

	if _, err := tel.Serve(addr.String()); err == nil || !strings.Contains(err.Error(), "--metrics") || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a port that is taken: %v", err)
	}
	end(t, tel)
	if _, err := tel.Serve("0"); err == nil {
		t.Error("something is served after the end")
	}
}

func TestAddresses(t *testing.T) {
	environment(t)
	for addr, wants := range map[string]string{
		"0": "127.0.0.1", ":0": "127.0.0.1", "localhost:0": "127.0.0.1", "127.0.0.1:0": "127.0.0.1", "0.0.0.0:0": "::|0.0.0.0",
		"": "error", "nonsense": "error", "127.0.0.1": "error", "localhost:http": "error", "1:2:3": "error", ":70000": "error", "-1": "error",
	} {
		t.Run(addr, func(t *testing.T) {
			noLeaks(t)
			h := newHost()
			tel := h.start(t)
			got, err := tel.Serve(addr)
			if (err != nil) != (wants == "error") {
				t.Fatalf("%v, %v", got, err)
			}
			if err != nil {
				return
			}
			ip := got.(*net.TCPAddr).IP
			if !strings.Contains(wants, ip.String()) && (addr != "localhost:0" || !ip.IsLoopback()) {
				t.Errorf("it listens at %s", got)
			}
			if warned := h.log.count("everybody who can reach") > 0; warned == ip.IsLoopback() {
				t.Errorf("log for %s:\n%s", got, &h.log)
			}
		})
	}
}

func TestNilTellsNothing(t *testing.T) {
	var tel *telemetry.Telemetry
	call := newCall(1, "files", "read")
	tel.BeginRequest(call, incoming, messages.EraLegacy, messages.TransportStdio)
	if call.Sending == nil {
		t.Error("the trace context is not passed on")
	}
	tel.BeginCall(context.Background(), call)
	tel.Ended(call, &messages.Answer{}, "ok", 0)
	if err := tel.Close(context.Background()); err != nil || tel.Exporting() {
		t.Error(err)
	}
}
