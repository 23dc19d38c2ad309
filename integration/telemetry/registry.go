package telemetry

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	prefix = "metamcp_"
	// maxScrapes bounds those who scrape at the same time.
	maxScrapes = 4
)

// durations are the bounds of histograms, in seconds. They are those of the
// conventions, and two below, since a call takes less than 10 ms often.
var durations = []float64{0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}

// registry is what Prometheus reads. It is made with the first scrape.
type registry struct {
	*prometheus.Registry
	calls *prometheus.HistogramVec
}

func (t *Telemetry) newRegistry() *registry {
	r := &registry{
		Registry: prometheus.NewRegistry(),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "call_duration_seconds", Help: "Time from a tool call to its answer, by the server, its tool, and how it ended.",
			Buckets: durations,
		}, []string{"server", "tool", "outcome"}),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "build_info", Help: "1; the label is the version of the host."}, []string{"version"})
	build.WithLabelValues(utf8(t.opts.Version)).Set(1)
	r.MustRegister(build, r.calls, newStatusCollector(t), // their names are constants and differ
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

func (r *registry) observe(l label, outcome string, took time.Duration) {
	r.calls.WithLabelValues(utf8(l.server), utf8(l.tool), outcome).Observe(took.Seconds())
}

// statusCollector reads the host's description when it is scraped.
type statusCollector struct {
	t     *Telemetry
	descs []*prometheus.Desc // of statusSeries
}

func newStatusCollector(t *Telemetry) *statusCollector {
	c := &statusCollector{t: t}
	for i := range statusSeries {
		s := &statusSeries[i]
		name := prefix + s.name
		if s.counter {
			name += "_total"
		}
		c.descs = append(c.descs, prometheus.NewDesc(name, s.help, s.labels, nil))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *statusCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *statusCollector) Collect(ch chan<- prometheus.Metric) {
	snap, err := c.t.snapshot(context.Background(), c.t.exporting.failures())
	if err != nil {
		ch <- prometheus.NewInvalidMetric(c.descs[0], err)
		return
	}
	for i := range statusSeries {
		kind := prometheus.GaugeValue
		if statusSeries[i].counter {
			kind = prometheus.CounterValue
		}
		statusSeries[i].read(snap, func(value float64, labels ...string) {
			for n := range labels {
				labels[n] = utf8(labels[n])
			}
			m, err := prometheus.NewConstMetric(c.descs[i], kind, value, labels...)
			if err != nil {
				m = prometheus.NewInvalidMetric(c.descs[i], err)
			}
			ch <- m
		})
	}
}

// Metrics answers the scrapes of Prometheus, for other servers to offer. The
// first one makes the host record how long calls take.
func (t *Telemetry) Metrics() http.Handler {
	handler := sync.OnceValue(func() http.Handler {
		return promhttp.HandlerFor(t.registry(), promhttp.HandlerOpts{
			MaxRequestsInFlight: maxScrapes, EnableOpenMetrics: true, Timeout: 2 * statusTime,
		})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.recording.Store(true)
		handler().ServeHTTP(w, r)
	})
}
