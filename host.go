package metamcp

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/integration/limits"
	"github.com/metamcp/metamcp/integration/tracelog"
	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// watchBuffer bounds the records that wait for one viewer of the trace, and watchBytes
// their payloads and details.
const (
	watchBuffer = 4096
	watchBytes  = 16 << 20
)

// HostStatus describes the engine as it is now: pool, breakers, servers and
// their processes, and with actors every living actor. It still answers after
// Close. The error is that of ctx.
func (e *Engine) HostStatus(ctx context.Context, actors bool) (*messages.HostStatus, error) {
	s := &messages.HostStatus{
		PID: os.Getpid(), Version: e.opts.Version, Started: e.started, At: time.Now(), Configs: e.Config().Files, ConfigProblem: e.configProblem(),
		Calls: e.core.Counts(), Sessions: e.core.Sessions(), Clients: e.clientStatus(), Draining: e.core.Draining(),
		Sandbox: e.core.SandboxStatus(), Provision: e.core.ProvisionStatus(),
		Drops: messages.DropCounts{Trace: e.core.Trace().Dropped()}, AuditProblem: e.audit.problem(),
	}
	if l := e.http.Load(); l != nil {
		s.HTTP = l.URL()
	}
	fds := limits.ReadDescriptors()
	s.Descriptors, s.DescriptorLimit = fds.Open, fds.Limit
	pool, there, err := e.askPool(ctx)
	if err != nil {
		return nil, err
	}
	if there {
		s.Pool = messages.PoolStatus{
			Size: pool.Config.Size, Reserve: pool.Config.Reserve, MaxWaiters: pool.Config.MaxWaiters,
			Used: pool.Live - pool.Reserve, ReserveUsed: pool.Reserve,
			Idle: pool.Idle, Waiters: pool.Waiting, Evictions: pool.Evictions,
		}
		if actors {
			s.Actors = e.core.Actors()
		}
	}
	cat, secrets := e.core.Catalog(), e.secrets.Load()
	names := e.core.Directory().Names()
	s.Servers = make([]messages.HostServer, 0, len(names))
	for _, name := range names {
		entry, ok := e.core.Directory().Lookup(name)
		if !ok {
			continue
		}
		d := describeServer(entry, cat.Server(name))
		description, _ := secrets.Counted(d.Description)
		status := entry.Status()
		if status.Breaker == "open" && !status.RetryAt.IsZero() && !status.RetryAt.After(s.At) {
			status.Breaker = "half-open" // nothing happened that the breaker could have told of
		}
		s.Servers = append(s.Servers, messages.HostServer{
			Name: d.Name, Description: description, Disabled: d.Disabled, Provisioned: d.Provisioned, State: d.State,
			Breaker: status.Breaker, Failures: status.Failures, RetryAt: d.RetryAt, Error: e.scrubbed(d.Error),
			Known: d.Known, Tools: d.Tools, Enabled: d.Enabled, Changed: d.Changed, Held: d.Held, Suspicious: d.Suspicious, Instances: entry.Instances(), Counts: entry.Counts(), Calls: e.times.of(d.Name),
		})
	}
	return s, nil
}

// configProblem is why the files of the configuration as they are now are not in force,
// without what is secret; "": they are.
func (e *Engine) configProblem() string {
	err := e.refused.Load()
	if err == nil {
		return ""
	}
	text := (*err).Error()
	var own *Error
	if errors.As(*err, &own) {
		text = own.Message
	}
	return e.secrets.Load().Text(text)
}

// refusing says whether the engine takes no new calls, once its pool has answered. It
// still answers after Close. The error is that of ctx.
func (e *Engine) refusing(ctx context.Context) (bool, error) {
	_, there, err := e.askPool(ctx)
	if err != nil {
		return false, err
	}
	return !there || e.core.Draining(), nil
}

// askPool asks the pool for its numbers; it is not there once the runtime has ended,
// perhaps while it was asked. The error is that of ctx.
func (e *Engine) askPool(ctx context.Context) (pool supervision.PoolReport, there bool, err error) {
	if e.core.Closed() {
		return pool, false, nil
	}
	pool, err = e.core.PoolStats(ctx)
	if gone := (*Error)(nil); errors.As(err, &gone) {
		return pool, false, nil
	}
	return pool, err == nil, err
}

func (e *Engine) scrubbed(err *Error) *Error {
	if err == nil {
		return nil
	}
	return e.secrets.Load().Error(err)
}

// WatchTrace streams what the actors say to each other until ctx ends or the
// engine is closed; the channel is closed then. What finds no room in it is
// dropped, and a record says how much was. filter takes the conditions of
// docs/TRACE.md.
func (e *Engine) WatchTrace(ctx context.Context, filter ...string) (<-chan messages.TraceRecord, error) {
	f, err := tracelog.ParseFilter(filter)
	if err != nil {
		return nil, &Error{Code: messages.CodeValidation, Message: err.Error(), Cause: err}
	}
	out := make(chan messages.TraceRecord, watchBuffer)
	if !e.enterView() {
		close(out)
		return out, nil
	}
	v := &viewer{out: out}
	watcher := e.core.Trace().Attach(v, f.Func())
	go func() { //nolint:gosec // G118: what ends a watcher does not hang on who asked for it
		defer e.viewers.Done()
		defer close(out)
		select {
		case <-ctx.Done():
		case <-e.closed:
		}
		_ = watcher.Close(context.Background()) // a viewer's writes never block
	}()
	return out, nil
}

// enterView counts a viewer, unless Close waits for them already: a wait group
// must not grow from nothing meanwhile.
func (e *Engine) enterView() bool {
	e.viewing.Lock()
	defer e.viewing.Unlock()
	select {
	case <-e.closed:
		return false
	default:
		e.viewers.Add(1)
		return true
	}
}

// endViews ends the viewers and waits for them.
func (e *Engine) endViews() {
	e.viewing.Lock()
	e.closing.Do(func() { close(e.closed) })
	e.viewing.Unlock()
	e.viewers.Wait()
}

// viewer is a writer of records into a channel. It is the only one.
type viewer struct {
	out   chan messages.TraceRecord
	sizes []int // of the records in out, and perhaps of some before them
	bytes int   // the sum of sizes
	lost  uint64
}

// WriteRecord implements actors.RecordWriter; it never blocks.
func (v *viewer) WriteRecord(r *messages.TraceRecord) error {
	own := *r
	own.Payload = slices.Clone(r.Payload) // which may be a small part of a large buffer
	if v.lost > 0 {
		said := messages.TraceRecord{V: messages.TraceVersion, Time: r.Time, Kind: messages.TraceDropped, Count: v.lost, Detail: "the viewer did not keep up"}
		if !v.send(&said) {
			v.lost++
			return nil
		}
		v.lost = 0
	}
	if !v.send(&own) {
		v.lost++
	}
	return nil
}

// send reports whether there was room for a record.
func (v *viewer) send(r *messages.TraceRecord) bool {
	taken := len(v.sizes) - len(v.out) // by the viewer, since the last time
	for _, n := range v.sizes[:taken] {
		v.bytes -= n
	}
	v.sizes = v.sizes[taken:]
	size := len(r.Payload) + len(r.Detail)
	if v.bytes > 0 && v.bytes+size > watchBytes {
		return false
	}
	select {
	case v.out <- *r:
		v.sizes, v.bytes = append(v.sizes, size), v.bytes+size
		return true
	default:
		return false
	}
}

// Flush implements actors.RecordWriter.
func (v *viewer) Flush() error { return nil }

// LogFiles returns the files with what a server's children said on stderr,
// oldest first. The error is an *[Error] where there is no such server.
func (e *Engine) LogFiles(server string) ([]string, error) {
	if _, ok := e.core.Directory().Lookup(server); !ok {
		return nil, e.core.ServerNotFound(server)
	}
	dir := e.Config().Settings.StateDir
	if dir == "" {
		return nil, nil
	}
	return control.LogFiles(filepath.Join(dir, "logs"), server)
}

// OpenControl opens the control socket through which "metamcp status" and
// other programs of this user see the engine. name is what they call it; "":
// after its pid. The caller closes the server after the engine. The error is no *[Error];
// an engine does without the socket.
func (e *Engine) OpenControl(name string) (*control.Server, error) {
	return e.announce(control.Options{
		StateDir: e.Config().Settings.StateDir, Name: name, Version: e.opts.Version, Started: e.started,
		Host: controlled{e}, Handlers: map[string]http.Handler{"GET /metrics": e.telemetry.Metrics()}, Log: e.log,
	})
}

// announcer is what announces the engine as a host.
type announcer struct {
	mu      sync.Mutex // held over the reading of the configuration's files and their announcement
	servers []*control.Server
}

// announce begins to announce the engine as that of its configuration files.
func (e *Engine) announce(o control.Options) (*control.Server, error) {
	a := &e.announcer
	a.mu.Lock()
	defer a.mu.Unlock()
	o.Configs = e.Config().Files
	s, err := control.Serve(o)
	if err == nil {
		a.servers = append(a.servers, s)
	}
	return s, err
}

// announceFiles announces the engine as that of the files of the configuration in
// force: one that began without a file has one when it appears, and who looks for a
// host goes by that.
func (e *Engine) announceFiles(ctx context.Context) {
	a := &e.announcer
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.servers {
		if err := s.Follow(ctx, e.Config().Files); err != nil {
			e.log.Warn("metamcp commands and clients do not find this host by its configuration file", "host", s.Info().Name, "files", e.Config().Files, "error", err)
		}
	}
}

// controlled is the engine as the control socket sees it.
type controlled struct{ e *Engine }

// Status implements control.Host.
func (c controlled) Status(ctx context.Context, actors bool) (*messages.HostStatus, error) {
	return c.e.HostStatus(ctx, actors)
}

// Draining implements control.Host.
func (c controlled) Draining(ctx context.Context) (bool, error) { return c.e.refusing(ctx) }

// Trace implements control.Host.
func (c controlled) Trace(ctx context.Context) (<-chan messages.TraceRecord, error) {
	return c.e.WatchTrace(ctx)
}

// Usage implements control.Measurer.
func (c controlled) Usage(st *messages.HostStatus) { c.e.measure(st) }

// LogFiles implements control.Host.
func (c controlled) LogFiles(server string) ([]string, error) { return c.e.LogFiles(server) }
