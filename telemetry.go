package metamcp

import (
	"context"
	"errors"
	"net"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/telemetry"
	"github.com/metamcp/metamcp/messages"
)

// startTelemetry begins to tell monitoring, where the environment variables of
// OpenTelemetry ask for it. Without them it runs nothing.
func (e *Engine) startTelemetry(st *config.Settings) {
	e.telemetry = telemetry.New(telemetry.Options{
		Version: e.opts.Version, ToolLimit: st.Telemetry.ToolLimit, Log: e.log,
		Status:   func(ctx context.Context) (*messages.HostStatus, error) { return e.HostStatus(ctx, false) },
		Draining: e.refusing,
		Known: func(server, tool string) (knownServer, knownTool bool) {
			if known := e.core.Catalog().Server(server); known != nil {
				return true, known.Tool(tool) != nil
			}
			_, knownServer = e.core.Directory().Lookup(server)
			return knownServer, false
		},
		Health: func() error {
			select {
			case <-e.gaveUp:
				return errors.New("the runtime gave up; see the log")
			default:
				return nil
			}
		},
	})
}

// ServeMetrics serves /metrics for Prometheus, /healthz and /readyz over HTTP
// at the address of the setting telemetry.metricsAddr until Close, and returns
// where it listens; nil where the setting is empty. An engine does without
// where that fails, for instance because the port is taken; the error is no *[Error].
func (e *Engine) ServeMetrics() (net.Addr, error) {
	addr := e.Config().Settings.Telemetry.MetricsAddr
	if addr == "" {
		return nil, nil
	}
	return e.telemetry.Serve(addr)
}

// callEnded tells everyone who wants to know of each call.
func (e *Engine) callEnded(r *actors.CallReport) {
	if e.audit != nil {
		e.audit.called(r)
	}
	e.times.ended(r, e.thereIs)
	e.telemetry.Ended(r.Call, r.Answer, r.Outcome, r.Took)
}

// thereIs says whether calls can reach a server of that name.
func (e *Engine) thereIs(server string) bool {
	_, ok := e.core.Directory().Lookup(server)
	return ok
}
