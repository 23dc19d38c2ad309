package telemetry

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// statusTime bounds the wait for the host to describe itself.
const statusTime = 2 * time.Second

// series is one metric that is read from the host's description. It has a name
// in the style of Prometheus, without "metamcp_" and "_total", and one in the
// style of OpenTelemetry, without "metamcp.".
type series struct {
	name, dotted string
	unit         string // as OpenTelemetry writes it; "": 1
	counter      bool   // else a gauge
	help         string
	labels       []string // as Prometheus knows them
	read         func(s *snapshot, emit func(value float64, labels ...string))
}

// snapshot is the host at one moment.
type snapshot struct {
	*messages.HostStatus
	// used are the servers that anything happened to: a host may have
	// thousands that nobody ever needed.
	used     []*messages.HostServer
	failures map[string]uint64 // of exports, by signal
}

// snapshot describes the host. failures are of exports, by signal.
func (t *Telemetry) snapshot(ctx context.Context, failures map[string]uint64) (*snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	status, err := t.opts.Status(ctx)
	if err != nil {
		return nil, err
	}
	s := &snapshot{HostStatus: status, failures: failures}
	for i := range status.Servers {
		if srv := &status.Servers[i]; len(s.used) < maxServers && (len(srv.Instances) > 0 || srv.Failures > 0 || srv.Counts != messages.ServerCounts{}) {
			s.used = append(s.used, srv)
		}
	}
	return s, nil
}

// number is a series without labels.
func number(read func(s *snapshot) float64) func(*snapshot, func(float64, ...string)) {
	return func(s *snapshot, emit func(float64, ...string)) { emit(read(s)) }
}

// perServer is a series with one value for each server in use.
func perServer(read func(srv *messages.HostServer) float64) func(*snapshot, func(float64, ...string)) {
	return func(s *snapshot, emit func(float64, ...string)) {
		for _, srv := range s.used {
			emit(read(srv), srv.Name)
		}
	}
}

var breakerStates = []string{"closed", "half-open", "open"}

var serverLabel = []string{"server"}

// statusSeries are all metrics that cost nothing until somebody reads them.
var statusSeries = []series{
	{name: "calls", dotted: "calls", unit: "{call}", counter: true, help: "Tool calls since the host started.",
		read: number(func(s *snapshot) float64 { return float64(s.Calls.Total) })},
	{name: "calls_failed", dotted: "calls.failed", unit: "{call}", counter: true, help: "Tool calls that ended with an error of metamcp's own; a tool's isError is none.",
		read: number(func(s *snapshot) float64 { return float64(s.Calls.Failed) })},
	{name: "calls_in_flight", dotted: "calls.active", unit: "{call}", help: "Tool calls that are not answered yet.",
		read: number(func(s *snapshot) float64 { return float64(s.Calls.InFlight) })},
	{name: "sessions", dotted: "sessions", unit: "{session}", help: "Connected clients.",
		read: number(func(s *snapshot) float64 { return float64(s.Sessions) })},
	{name: "draining", dotted: "draining", help: "1 while the host ends and takes no new calls.",
		read: number(func(s *snapshot) float64 { return truth(s.Draining) })},

	{name: "pool_places", dotted: "pool.places", unit: "{connection}", help: "Connections to servers that may live at the same time.", labels: []string{"kind"},
		read: func(s *snapshot, emit func(float64, ...string)) {
			emit(float64(s.Pool.Size), "regular")
			emit(float64(s.Pool.Reserve), "reserve")
		}},
	{name: "pool_places_used", dotted: "pool.places.used", unit: "{connection}", help: "Places of the pool that are taken.", labels: []string{"kind"},
		read: func(s *snapshot, emit func(float64, ...string)) {
			emit(float64(s.Pool.Used), "regular")
			emit(float64(s.Pool.ReserveUsed), "reserve")
		}},
	{name: "pool_idle_connections", dotted: "pool.connections.idle", unit: "{connection}", help: "Connections with nothing in flight.",
		read: number(func(s *snapshot) float64 { return float64(s.Pool.Idle) })},
	{name: "pool_waiters", dotted: "pool.waiters", unit: "{connection}", help: "Connections that wait for a place in the pool.",
		read: number(func(s *snapshot) float64 { return float64(s.Pool.Waiters) })},
	{name: "pool_waiters_limit", dotted: "pool.waiters.limit", unit: "{connection}", help: "How many may wait; more are refused.",
		read: number(func(s *snapshot) float64 { return float64(s.Pool.MaxWaiters) })},
	{name: "pool_evictions", dotted: "pool.evictions", unit: "{connection}", counter: true, help: "Idle connections that were ended to make room.",
		read: number(func(s *snapshot) float64 { return float64(s.Pool.Evictions) })},

	{name: "servers", dotted: "servers", unit: "{server}", help: "Configured servers by state; DISABLED are those that the configuration turns off.", labels: []string{"state"},
		read: func(s *snapshot, emit func(float64, ...string)) {
			counts := map[string]int{}
			for i := range s.Servers {
				state := s.Servers[i].State
				if s.Servers[i].Disabled {
					state = "DISABLED"
				}
				counts[state]++
			}
			for _, state := range sortedKeys(counts) {
				emit(float64(counts[state]), state)
			}
		}},
	{name: "server_breaker_state", dotted: "server.breaker.state", help: "1 for the state that the server's circuit breaker is in, 0 for the others.", labels: []string{"server", "state"},
		read: func(s *snapshot, emit func(float64, ...string)) {
			for _, srv := range s.used {
				for _, state := range breakerStates {
					emit(truth(srv.Breaker == state), srv.Name, state)
				}
			}
		}},
	{name: "server_breaker_transitions", dotted: "server.breaker.transitions", unit: "{transition}", counter: true, help: "Changes of the server's circuit breaker, by the state that it went to.", labels: []string{"server", "to"},
		read: func(s *snapshot, emit func(float64, ...string)) {
			for _, srv := range s.used {
				emit(float64(srv.Counts.Opened), srv.Name, "open")
				emit(float64(srv.Counts.HalfOpened), srv.Name, "half-open")
				emit(float64(srv.Counts.Closed), srv.Name, "closed")
			}
		}},
	{name: "server_connections", dotted: "server.connections", unit: "{connection}", help: "Live connections to the server by state.", labels: []string{"server", "state"},
		read: func(s *snapshot, emit func(float64, ...string)) {
			for _, srv := range s.used {
				counts := map[string]int{}
				for _, in := range srv.Instances {
					counts[in.State]++
				}
				for _, state := range sortedKeys(counts) {
					emit(float64(counts[state]), srv.Name, state)
				}
			}
		}},
	{name: "server_calls_in_flight", dotted: "server.calls.active", unit: "{call}", help: "Calls that the server's connections hold, those that wait included.", labels: serverLabel,
		read: perServer(func(srv *messages.HostServer) float64 {
			n := 0
			for _, in := range srv.Instances {
				n += in.InFlight
			}
			return float64(n)
		})},
	{name: "server_spawns", dotted: "server.spawns", unit: "{process}", counter: true, help: "Processes of the server that were started.", labels: serverLabel,
		read: perServer(func(srv *messages.HostServer) float64 { return float64(srv.Counts.Spawns) })},
	{name: "server_exits", dotted: "server.exits", unit: "{process}", counter: true, help: "Processes of the server that ended, for whatever reason.", labels: serverLabel,
		read: perServer(func(srv *messages.HostServer) float64 { return float64(srv.Counts.Exits) })},
	{name: "server_retries", dotted: "server.retries", unit: "{call}", counter: true, help: "Calls that were sent again after their connection was lost.", labels: serverLabel,
		read: perServer(func(srv *messages.HostServer) float64 { return float64(srv.Counts.Retries) })},

	{name: "provisions", dotted: "provisions", unit: "{request}", counter: true, help: "Requests for servers by what became of them.", labels: []string{"decision"},
		read: func(s *snapshot, emit func(float64, ...string)) {
			for _, decision := range sortedKeys(s.Provision.Decisions) {
				emit(float64(s.Provision.Decisions[decision]), string(decision))
			}
		}},
	{name: "queue_drops", dotted: "queue.drops", unit: "{record}", counter: true, help: "What found no room in a bounded queue and was dropped.", labels: []string{"queue"},
		read: func(s *snapshot, emit func(float64, ...string)) { emit(float64(s.Drops.Trace), "trace") }},
	{name: "telemetry_export_failures", dotted: "telemetry.export.failures", unit: "{export}", counter: true, help: "Exports that the OTLP collector did not take.", labels: []string{"signal"},
		read: func(s *snapshot, emit func(float64, ...string)) {
			for _, signal := range sortedKeys(s.failures) {
				emit(float64(s.failures[signal]), signal)
			}
		}},
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func sortedKeys[K ~string, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// utf8 is a label that both worlds take.
func utf8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
