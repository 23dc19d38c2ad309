package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/metamcp/metamcp/integration/telemetry"
	"github.com/metamcp/metamcp/integration/telemetry/fakeotlp"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

const (
	traceID  = "0af7651916cd43dd8448eb211c80319c"
	parentID = "b7ad6b7169203331"
	parent   = "00-" + traceID + "-" + parentID + "-01"
	wait     = 30 * time.Second
)

// noLeaks fails the test where goroutines are left once everything that it
// started afterwards has been cleaned up.
func noLeaks(t *testing.T) {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { testkit.NoLeaks(t, ignore) })
}

// environment is that of a test and of nobody else: no OTEL_ variable but those
// that it names.
func environment(t *testing.T, vars ...string) {
	t.Helper()
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
	for _, kv := range vars {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
}

// logged is a log that a test reads.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logged) count(text string) int { return strings.Count(l.String(), text) }

// host is what the telemetry of a test describes.
type host struct {
	log    logged
	status atomic.Pointer[messages.HostStatus]
	failed atomic.Bool  // Status and Draining
	looks  atomic.Int64 // how often it was described
	sick   atomic.Bool
}

func newHost() *host {
	h := &host{}
	h.status.Store(&messages.HostStatus{
		Version: "1.2.3", Sessions: 2, Calls: messages.CallCounts{InFlight: 3, Total: 40, Failed: 5},
		Pool: messages.PoolStatus{Size: 20, Reserve: 4, Used: 7, ReserveUsed: 1, Idle: 2, Waiters: 6, MaxWaiters: 1024, Evictions: 9},
		Servers: []messages.HostServer{
			{Name: "files", State: "ACTIVE", Breaker: "open", Counts: messages.ServerCounts{Spawns: 3, Exits: 2, Retries: 1, Opened: 4, HalfOpened: 3, Closed: 2},
				Instances: []messages.Instance{{State: "ACTIVE", InFlight: 2}, {State: "IDLE"}}},
			{Name: "unused", State: "IDLE", Breaker: "closed"},
			{Name: "off", State: "IDLE", Breaker: "closed", Disabled: true},
		},
		Drops: messages.DropCounts{Trace: 11},
	})
	return h
}

func (h *host) options() telemetry.Options {
	return telemetry.Options{
		Version: "1.2.3", ToolLimit: 100,
		Log: slog.New(slog.NewTextHandler(&h.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Status: func(context.Context) (*messages.HostStatus, error) {
			if h.failed.Load() {
				return nil, errors.New("the pool does not answer")
			}
			h.looks.Add(1)
			return h.status.Load(), nil
		},
		Draining: func(context.Context) (bool, error) {
			if h.failed.Load() {
				return false, errors.New("the pool does not answer")
			}
			return h.status.Load().Draining, nil
		},
		Known: func(server, tool string) (bool, bool) {
			return server == "files", server == "files" && (tool == "read" || tool == "write")
		},
		Health: func() error {
			if h.sick.Load() {
				return errors.New("the runtime gave up")
			}
			return nil
		},
	}
}

// started is telemetry that ends with the test.
func (h *host) start(t *testing.T) *telemetry.Telemetry {
	t.Helper()
	tel := telemetry.New(h.options())
	t.Cleanup(func() { end(t, tel) })
	return tel
}

func end(t *testing.T, tel *telemetry.Telemetry) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if err := tel.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
	if ctx.Err() != nil {
		t.Error("the end took all the time that it was given")
	}
}

func newCall(id uint64, server, tool string) *messages.Call {
	return &messages.Call{Meta: messages.Meta{Trace: id, Session: 1}, ID: id, Server: server, Tool: tool, Args: json.RawMessage(`{"password":"hunter2"}`)}
}

func quoted(s string) json.RawMessage { return json.RawMessage(`"` + s + `"`) }

var incoming = messages.TraceContext{Parent: quoted(parent), State: quoted("rojo=00f067aa0ba902b7"), Baggage: quoted("user=alice")}

// collected is the telemetry of a test with a collector.
func collected(t *testing.T, vars ...string) (*telemetry.Telemetry, *fakeotlp.Collector, *host) {
	t.Helper()
	noLeaks(t)
	c := fakeotlp.Start(t)
	environment(t, append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL}, vars...)...)
	h := newHost()
	return h.start(t), c, h
}
