package metamcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/index/embed"
	"github.com/metamcp/metamcp/index/embed/voyage"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/doctor"
	"github.com/metamcp/metamcp/integration/regular"
	"github.com/metamcp/metamcp/integration/safename"
	"github.com/metamcp/metamcp/messages"
)

// StartOptions say how [TryServers] starts servers.
type StartOptions struct {
	// Wanted says by name which servers to start, of those that are neither
	// broken nor turned off; nil: all.
	Wanted func(server string) bool
	// Timeout bounds each start, beside the entry's own startupTimeoutMs; 0:
	// a minute, or where the command has to download the server first, nothing
	// else.
	Timeout time.Duration
	// Parallel is how many start at a time; 0: as many as there are processors.
	Parallel int
	// Version is what the servers are told; "": "dev".
	Version string
	// Watchdog is that of [Options].
	Watchdog string
}

// TryServers starts the servers of a configuration, or connects to those behind a
// URL, asks each for its tools and ends them all again. It reads and writes nothing of the state
// folder, so that a host that runs with it is not disturbed, but for the tokens
// of logins, which hosts share. The starts are in
// the order of the configuration; those that ctx did not leave time for have a
// CANCELLED error. The error is an *[Error]: the runtime did not start, or did
// not end in time.
func TryServers(ctx context.Context, cfg *config.Config, o StartOptions) (starts []doctor.Start, err error) {
	if o.Parallel <= 0 {
		o.Parallel = runtime.GOMAXPROCS(0)
	}
	for _, spec := range cfg.Servers {
		if spec.Err == nil && !spec.Disabled && (o.Wanted == nil || o.Wanted(spec.Name)) {
			starts = append(starts, doctor.Start{Spec: spec})
		}
	}
	if len(starts) == 0 {
		return nil, nil
	}
	// What servers say on stderr goes to a folder of its own; where there can be
	// none, the last lines that errors quote must do.
	dir, err := os.MkdirTemp("", "metamcp-doctor-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
	}
	e, err := openTrial(ctx, cfg, dir, starts, o)
	if err != nil {
		return nil, err
	}
	slots := make(chan struct{}, o.Parallel)
	var running sync.WaitGroup
	for i := range starts {
		slots <- struct{}{}
		if ctx.Err() != nil {
			starts[i].Err = interrupted(starts[i].Spec.Name, ctx.Err())
			<-slots
			continue
		}
		running.Go(func() {
			defer func() { <-slots }()
			e.try(ctx, &starts[i], o.patience(starts[i].Spec))
		})
	}
	running.Wait()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.EndTime())
	defer cancel()
	if err := e.Close(closing); err != nil {
		return starts, &Error{Code: messages.CodeConnection, Message: "not all servers ended in time: " + err.Error(), Cause: err}
	}
	return starts, nil
}

// patience is how long a server may take to start.
func (o *StartOptions) patience(s *messages.ServerSpec) time.Duration {
	switch {
	case o.Timeout > 0:
		return o.Timeout
	case s.RunsPackage():
		return s.StartupTimeout
	}
	return time.Minute
}

// openTrial starts a runtime that keeps nothing but logs in dir.
func openTrial(ctx context.Context, cfg *config.Config, dir string, starts []doctor.Start, o StartOptions) (*Engine, error) {
	trial := *cfg
	st := &trial.Settings
	st.StateDir, st.CacheEnabled, st.Trace, st.Audit.File = dir, false, "", ""
	st.Pins = string(messages.PinsOff) // a trial accepts nothing
	st.Search.Embedder, st.DrainTimeout = "none", 0
	st.Pool.MinPoolSize, st.Pool.ResPoolSize = 0, 0
	st.Pool.PoolSize = 2 * o.Parallel // one that ends does not hold up the next
	trial.Servers = make([]*messages.ServerSpec, len(starts))
	for i, s := range starts {
		own := *s.Spec
		own.StartupTimeout = min(own.StartupTimeout, o.patience(s.Spec))
		own.Timeout = min(own.Timeout, o.patience(s.Spec))
		own.Lifecycle = messages.LifecycleEphemeral
		own.Limits.Processes = 0 // the host may have been given the control group that this needs, a trial never is
		trial.Servers[i] = &own
	}
	trial.Problems, trial.Warnings = nil, nil // they were said
	if o.Version == "" {
		o.Version = "dev"
	}
	e := &Engine{
		opts: Options{Version: o.Version, Watchdog: o.Watchdog}, log: slog.New(slog.DiscardHandler),
		gaveUp: make(chan struct{}), started: time.Now(), closed: make(chan struct{}),
		loginDir: cfg.Settings.StateDir,
	}
	e.reloads, e.endReloads = context.WithCancel(context.Background())
	if err := e.start(ctx, &trial); err != nil {
		return nil, asError(err)
	}
	return e, nil
}

// try starts one server.
func (e *Engine) try(parent context.Context, s *doctor.Start, timeout time.Duration) {
	// The runtime has the better reason when a start takes too long, so it is
	// the first to give up: after the handshake, and after the listing.
	const margin = 5 * time.Second
	ctx, cancel := context.WithTimeout(parent, 2*timeout+margin)
	defer cancel()
	began := time.Now()
	known, err := e.known(ctx, s.Spec.Name)
	s.Took = time.Since(began)
	switch {
	case err == nil:
		s.Tools = known.Toolset
	case parent.Err() != nil:
		s.Err = interrupted(s.Spec.Name, err)
	default:
		s.Err = ofTrial(e.scrubbed(asError(err)), s.Spec, timeout)
		if path := e.logs.Path(s.Spec.Name); len(s.Err.Details) == 0 && path != "" {
			own := *s.Err
			own.Details = lastLines(path)
			s.Err = &own
		}
	}
}

// ofTrial is a failure for the person who makes the trial: where it had less time than
// the server's entry allows, more of the latter is of no use.
func ofTrial(err *Error, spec *messages.ServerSpec, timeout time.Duration) *Error {
	const setting = " (startupTimeoutMs)"
	if timeout >= spec.StartupTimeout || !strings.Contains(err.Message, setting) {
		return err
	}
	own := *err
	own.Message = strings.ReplaceAll(own.Message, setting, ", which this trial gave it")
	own.Hint = fmt.Sprintf("Try it with a longer --timeout: the entry allows %v (startupTimeoutMs).", spec.StartupTimeout)
	return &own
}

// lastLines is the end of a server's log, with the times of the lines; nil where
// it said nothing.
func lastLines(path string) []string {
	const most, enough = 10, 16 << 10
	f, err := regular.Open(path, os.O_RDONLY)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && info.Size() > enough {
		_, _ = f.Seek(-enough, io.SeekEnd) // else all of it is read, which is bounded
	}
	text, _ := io.ReadAll(io.LimitReader(f, 1<<20)) // what could be read counts
	lines := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
	return lines[max(0, len(lines)-most):]
}

func interrupted(server string, cause error) *Error {
	return &Error{Code: messages.CodeCancelled, Server: server, Message: "interrupted before it had listed its tools", Hint: "Run it again.", Cause: cause}
}

// CacheCheck looks whether the schema cache can be read: what each server
// listed last.
func CacheCheck(cfg *config.Config) doctor.Check {
	return doctor.Check{ID: "state.cache", Group: doctor.GroupState, Run: func(context.Context) []doctor.Result {
		st := &cfg.Settings
		if st.StateDir == "" || !st.CacheEnabled {
			return []doctor.Result{{Status: doctor.Skipped, Found: "nothing is kept"}}
		}
		names := make([]string, len(cfg.Servers))
		for i, spec := range cfg.Servers {
			names[i] = spec.Name
		}
		sets, skipped := index.NewCache(st.StateDir, safename.SafeName).LoadAll(names, 2)
		if len(skipped) == 0 {
			return []doctor.Result{{Status: doctor.OK, Found: fmt.Sprintf("the tools of %d of %d servers are known", len(sets), len(names))}}
		}
		results := make([]doctor.Result, len(skipped))
		for i, s := range skipped {
			results[i] = doctor.Result{
				Subject: s.Server, Status: doctor.Warn, Found: s.Err.Error(), Why: "The tools of this server are not found before it has been started once.",
				Fix: "It mends itself with the server's next start; metamcp discover --server " + messages.ShellWord(s.Server) + " does that.",
			}
		}
		return results
	}}
}

// EmbedderCheck says which embedder is in force and whether it can be used.
// Only with network is a text sent to one that is reached over the network, or
// a local model loaded. Keys are named and never shown.
func EmbedderCheck(cfg *config.Config, network bool) doctor.Check {
	return doctor.Check{ID: "embedder", Group: doctor.GroupEmbedder, Run: func(ctx context.Context) []doctor.Result {
		return []doctor.Result{checkEmbedder(ctx, cfg, network)}
	}}
}

func checkEmbedder(ctx context.Context, cfg *config.Config, network bool) doctor.Result {
	c := embedderSettings(cfg)
	how := "chosen by search.embedder"
	if c.kind == "auto" {
		c, how = c.settled(), "chosen by itself"
	}
	if c.kind == "none" {
		return doctor.Result{Status: doctor.OK, Found: "none: search goes by words alone"}
	}
	made, err := newEmbedder(c, slog.New(slog.DiscardHandler))
	if err != nil {
		r := doctor.Result{
			Status: doctor.Fail, Found: fmt.Sprintf("%s (%s) cannot be used: %v", c.kind, how, err),
			Why: "Search goes by words alone, and misses tools that are described in other words.",
			Fix: `Set search.embedder to "auto", or see docs/SEARCH.md for what this one needs.`,
		}
		var e *embed.Error
		if errors.As(err, &e) && e.Hint != "" {
			r.Fix = e.Hint
		}
		return r
	}
	defer func() { _ = made.Close() }()
	r := doctor.Result{Status: doctor.OK, Found: fmt.Sprintf("%s, model %s (%s)", c.kind, made.Model(), how)}
	switch c.kind {
	case "voyage":
		_, variable := voyage.FindKey(os.Getenv, true)
		r.Found += ", key from " + variable
	case "openai":
		if strings.TrimSpace(os.Getenv(c.keyVariable)) == "" {
			r.Found += ", without a key"
		} else {
			r.Found += ", key from " + c.keyVariable
		}
	case "local":
		if file := c.modelFile(); file != "" {
			if _, err := os.Stat(file); err != nil {
				r.Status, r.Found = doctor.Fail, fmt.Sprintf("local: the model's file %s is not there", file)
				r.Why, r.Fix = "Search goes by words alone.", "metamcp model list   shows what is installed; metamcp model install installs one."
				return r
			}
			r.Found += ", " + file
		}
	default:
		return r // it is a part of this program
	}
	if !network {
		r.Details = []string{"Whether it answers was not tried; --network tries it."}
		return r
	}
	began := time.Now()
	if _, err := made.Embed(ctx, embed.Document, []string{"take a screenshot"}); err != nil {
		r.Status, r.Found = doctor.Fail, fmt.Sprintf("%s does not answer: %v", c.kind, err)
		r.Why, r.Fix = "Search goes by words alone until it does.", "Check the network, the key and search.embedderUrl."
		var e *embed.Error
		if errors.As(err, &e) && e.Hint != "" {
			r.Fix = e.Hint
		}
		return r
	}
	r.Found += fmt.Sprintf(", answered in %s", time.Since(began).Round(time.Millisecond))
	return r
}

// modelFile is the file of the local embedder's model; "": it is not known.
func (c embedderChoice) modelFile() string {
	if c.isFile() {
		return c.model
	}
	m, err := c.models().Find(c.model)
	if err != nil {
		return ""
	}
	return c.models().Path(m.Name)
}
