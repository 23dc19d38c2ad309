package metamcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/integration/askpage"
	"github.com/metamcp/metamcp/integration/childlog"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/integration/limits"
	"github.com/metamcp/metamcp/integration/oauth"
	"github.com/metamcp/metamcp/integration/pins"
	"github.com/metamcp/metamcp/integration/proctree"
	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/remote"
	"github.com/metamcp/metamcp/integration/safename"
	"github.com/metamcp/metamcp/integration/scrub"
	"github.com/metamcp/metamcp/integration/telemetry"
	"github.com/metamcp/metamcp/integration/watchdog"
	"github.com/metamcp/metamcp/messages"
)

// Error is the error type of everything here.
type Error = messages.Error

// Options say what an engine is made from. The zero value reads the
// configuration that the command would read.
type Options struct {
	// Sources are the configuration files and what overrides them.
	Sources config.Sources
	// Log takes what people should know; nil: slog's default logger. It must
	// not write to stdout where that speaks MCP, and who logs waits for it: a
	// pipe that nobody reads needs a writer in between that does not block.
	Log *slog.Logger
	// TraceOutput takes the trace for people, which the setting trace asks for with
	// "stderr"; nil: os.Stderr. No actor waits for it.
	TraceOutput io.Writer
	// Version is what children are told; "": "dev".
	Version string
	// Watch takes changes of the files over as they happen.
	Watch bool
	// Watchdog is the program that ends the children if this one is killed: a
	// binary that imports this package, as the present one does. "": this
	// program's own file. Children of a program that is killed without a
	// watchdog are found by the next one.
	Watchdog string
	// Sandbox is the program that is started as a process of the sandbox: a
	// binary that imports this package, as the present one does. "": this
	// program's own file.
	Sandbox string
	// NoWatchdog does without; children may outlive a program that is killed.
	NoWatchdog bool
	// ListsLater lets Open return before the tools of the servers are read from the
	// cache, which takes a second for a hundred thousand. [Engine.ServeStdio] holds
	// back what needs them; a program that uses the engine itself waits for them
	// with Open.
	ListsLater bool
	// Brief says that the engine lives for one command, which tells itself what a
	// server did, or what is wrong with its entry: the log does not say it again, and
	// does not warn where a running host has the index store.
	Brief bool
	// Memory says where the engine reads how short memory is; the zero value: where
	// the kernel of this machine tells. Its Percent does not count, the setting does.
	Memory limits.Memory
}

// Engine is a running runtime.
type Engine struct {
	opts   Options
	log    *slog.Logger
	core   *actors.Engine
	guard  *watchdog.Host
	remote *remote.Launcher
	logs   *childlog.Folder

	// config is the configuration in force. reload, of capacity 1, is held by who
	// replaces it, from the reading of the files on; readers need no lock.
	config atomic.Pointer[config.Config]
	reload chan struct{}
	// refused is why what the watcher has read is not in force; nil: it is. What others
	// read does not count: the watcher would not tell of a file that is as before again.
	refused atomic.Pointer[error]

	secrets atomic.Pointer[scrub.Set]
	tokens  loginSecrets
	logins  *oauth.Manager
	// loginDir is the state folder of the logins; "": that of the settings.
	loginDir string
	former   []*messages.ServerSpec // that were removed or changed, the latest last; under reload

	leftovers chan struct{} // closed when those of earlier hosts are ended; nil: nobody looks
	watcher   *config.Watcher
	// reloads ends when Close does not wait for a reload any more.
	reloads    context.Context
	endReloads context.CancelFunc

	searches  *searches // of clients and scripts
	unmet     atomic.Pointer[unmet]
	meetings  *meetings
	keeper    *keeper              // of what was accepted
	pins      *pins.Watcher        // nil: nobody watches
	trace     *traceOutput         // nil: none
	audit     *auditor             // nil: none
	telemetry *telemetry.Telemetry // set before the first call
	gaveUp    chan struct{}
	hurry     chan struct{} // closed once nothing in flight is waited for any more
	hurryOnce sync.Once

	started time.Time
	closing sync.Once
	closed  chan struct{}
	ending  sync.Once      // of what Close does when the actors have stopped
	endErr  error          // what went wrong then
	skills  skillReader    // set before the first call; nil: none are looked for
	viewing sync.Mutex     // held by who begins to view, and by who ends that
	viewers sync.WaitGroup // of the trace
	clients sync.Map       // session → client
	unread  front.Unread   // what waits for them
	lists   chan struct{}  // closed once the servers' tools are read from the cache; nil: they were, in Open
	askers  sync.Map       // session → *asker
	cures   *cures
	keeping chan struct{} // held by who stores secrets from a page
	pages   askpage.Pages
	http    atomic.Pointer[front.Listener] // of clients over HTTP; nil: none are served
	expose  *exposure
	times   callTimes

	announcer announcer
	procs     proctree.Sampler
	endTime   atomic.Int64 // see [Engine.EndTime]
}

// Open reads the configuration and starts the runtime. A configuration with
// broken entries opens; those servers refuse with the reason. One of whose entries has
// started this process does not (see [config.Config.CheckLoop]). The error is an
// *[Error].
func Open(ctx context.Context, opts Options) (*Engine, error) {
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.Version == "" {
		opts.Version = "dev"
	}
	cfg, err := config.Load(opts.Sources)
	if err != nil {
		return nil, err
	}
	if err := cfg.CheckLoop(!opts.Brief); err != nil {
		return nil, err
	}
	e := &Engine{opts: opts, log: opts.Log, gaveUp: make(chan struct{}), started: time.Now(), closed: make(chan struct{}), searches: newSearches()}
	e.reloads, e.endReloads = context.WithCancel(context.Background())
	if err := e.start(ctx, cfg); err != nil {
		return nil, asError(err)
	}
	return e, nil
}

// start starts the runtime. Where that fails nothing is left of it.
func (e *Engine) start(ctx context.Context, cfg *config.Config) error {
	err := e.startAll(ctx, cfg)
	if err != nil {
		const enough = 5 * time.Second // no child runs
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), enough)
		defer cancel()
		if left := e.end(ending, time.Now()); left != nil {
			e.log.Warn("not all of an engine that did not start has ended", "error", left)
		}
	}
	return err
}

// startAll leaves it to start to end what there is where it fails.
func (e *Engine) startAll(ctx context.Context, cfg *config.Config) error {
	st := cfg.Settings
	e.learnSecrets(cfg)
	e.pages.Public, _ = publicURL(st.HTTP.PublicURL) // ListenHTTP says what is wrong with it
	var cache *index.Cache
	logDir := "" // without a state folder the last lines are kept in memory, and go into errors
	if st.StateDir != "" {
		logDir = filepath.Join(st.StateDir, "logs")
		if st.CacheEnabled {
			cache = index.NewCache(st.StateDir, safename.SafeName)
		}
	}
	e.logs = childlog.NewFolder(logDir, childlog.Options{
		Scrub:    func(line []byte) []byte { return e.secrets.Load().Bytes(line) },
		NewScrub: func() childlog.Scrubber { return scrub.NewStream(e.secrets.Load) },
	})
	e.hurry, e.reload = make(chan struct{}), make(chan struct{}, 1)
	e.cures, e.keeping = newCures(), make(chan struct{}, 1)
	e.audit = e.newAuditor(&st)
	e.expose = e.newExposure(&st)
	e.keeper = newKeeper(e, &st)
	rules, err := toolRules(cfg)
	if err != nil {
		return err
	}
	launcher, err := e.launcher(cfg)
	if err != nil {
		return err
	}
	scripts, err := e.sandboxLauncher()
	if err != nil {
		return &Error{Code: messages.CodeConfiguration, Message: "the sandbox cannot be used: " + err.Error(), Cause: err}
	}
	e.meetings = newMeetings(maxMeetings(st.Pool), func(server string, named bool, port messages.ContactPort) {
		if named {
			e.core.ContactNamed(server, false, port)
		} else {
			e.core.Contact(server, false, port)
		}
	})
	e.core, err = actors.NewEngine(actors.Options{
		Provisioner: provisioner{e},
		Sandbox:     scripts, SandboxSettings: sandboxSettings(st.Execute), NextCall: front.NextCall, Discover: e.discoverForScript,
		Launcher: launcher, Cache: cache, StorePath: storePath(&st), Settings: poolSettings(st.Pool),
		Keeper:     e.keeper,
		CatalogTTL: st.Catalog.TTL, CatalogSweep: st.Catalog.Cleanup,
		MaxStarts: maxStarts(st.Pool),
		Name:      "metamcp", Version: e.opts.Version, Log: e.log,
		Scrub:          func(err *Error) *Error { return e.secrets.Load().Error(err) },
		CallEnded:      e.callEnded,
		CatalogChanged: e.expose.catalogChanged, ListChanged: e.expose.listChanged,
		ScrubText:    func(text []byte) []byte { return e.secrets.Load().Bytes(text) },
		ScrubJSON:    func(raw json.RawMessage) json.RawMessage { return e.secrets.Load().JSON(raw) },
		ScrubFrame:   e.scrubFrame,
		WarnOfServer: e.warnOfServer(), Brief: e.opts.Brief,
		GaveUp: func(reason any) {
			e.log.Error("the runtime gave up", "reason", fmt.Sprint(reason))
			close(e.gaveUp)
		},
	})
	if err != nil {
		return &Error{Code: messages.CodeConfiguration, Message: "the runtime did not start: " + err.Error(), Cause: err}
	}
	e.config.Store(cfg)
	e.mayRun(cfg)
	e.skills = e.newSkills()
	if err := e.expose.learnFour(e.newMCPServer()); err != nil {
		return err
	}
	e.expose.begin()
	if err := e.startTrace(&st); err != nil {
		return err
	}
	e.report(cfg)
	e.core.UseEmbedder(e.embedder(cfg))
	servers := cfg.Servers
	e.core.SetPins(pinMode(cfg))
	if e.opts.ListsLater && !e.expose.any() { // what is exposed is listed from the first answer on
		e.lists = make(chan struct{})
	}
	if err := e.core.Apply(ctx, actors.Change{All: servers, Added: servers, NewRules: true, Rules: rules, LeftOut: cfg.LeftOut, Lists: e.lists}); err != nil {
		return cancelled(ctx, err, "metamcp was given up while it started")
	}
	e.startTelemetry(&st)
	e.watchMemory(&st)
	if e.opts.Watch {
		if e.keeper.store != nil {
			e.pins = e.keeper.store.Watch(e.pinsChanged)
		}
		e.watcher = config.Watch(e.opts.Sources, cfg, e.Config, e.changed)
	}
	if st.StateDir != "" {
		// It may take seconds; only Close waits for it.
		e.leftovers = make(chan struct{})
		go e.endLeftovers(st.StateDir)
	}
	return nil
}

// leftoverAge is how long the folder of an installation is left alone that
// nobody owns and the lock file does not name.
const leftoverAge = time.Hour

// endLeftovers ends what a host that was killed together with its watchdog
// left running.
func (e *Engine) endLeftovers(stateDir string) {
	defer close(e.leftovers)
	ended, err := watchdog.EndLeftovers(stateDir)
	if err != nil {
		e.log.Warn("looking for processes that an earlier host left failed", "error", err)
	}
	for _, p := range ended {
		e.log.Warn("ended a process that an earlier host left running", "pid", p.PID, "name", p.Name)
	}
	swept, err := provisioned.Open(stateDir).Sweep(e.reloads, leftoverAge)
	if err != nil && e.reloads.Err() == nil {
		e.log.Warn("deleting what broken-off installations left failed", "error", err)
	}
	if len(swept) > 0 {
		e.log.Info("deleted what broken-off installations left", "folders", swept)
	}
}

// warnOfServer is how the log hears of servers that end unexpectedly.
func (e *Engine) warnOfServer() func(msg string, args ...any) {
	if e.opts.Brief {
		return nil
	}
	return e.log.Warn
}

// Log is where the engine logs.
func (e *Engine) Log() *slog.Logger { return e.log }

// Config is the configuration in force.
func (e *Engine) Config() *config.Config { return e.config.Load() }

// GaveUp is closed when an actor that the runtime cannot do without failed
// again and again. The program should then call Close and end; until then the
// engine goes on as well as it can.
func (e *Engine) GaveUp() <-chan struct{} { return e.gaveUp }

// Reload reads the configuration again and takes over what differs. A broken
// file changes nothing and is returned as error. What was read from a pipe at
// the start stays as it was. Where ctx ends meanwhile the error is CANCELLED, and says
// whether the new configuration is in force all the same: then all of the engine follows
// it soon, and was only not waited for. After [Engine.Close], and beside it, the error is
// SHUTTING_DOWN.
func (e *Engine) Reload(ctx context.Context) error {
	if err := e.lockReload(ctx); err != nil {
		return err
	}
	defer e.unlockReload()
	return e.readAgain(ctx)
}

// lockReload waits until nobody else replaces the configuration, or ctx ends.
func (e *Engine) lockReload(ctx context.Context) error {
	select {
	case e.reload <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &Error{
			Code: messages.CodeCancelled, Cause: ctx.Err(), Message: "the configuration was not read again, since another reload took too long: " + ctx.Err().Error(),
			Hint: "Reload again.",
		}
	}
}

func (e *Engine) unlockReload() { <-e.reload }

// readAgain is Reload; reload is held.
func (e *Engine) readAgain(ctx context.Context) error {
	cfg, err := config.Reload(e.opts.Sources, e.Config())
	if err != nil {
		return err
	}
	return e.take(ctx, cfg)
}

func (e *Engine) changed(cfg *config.Config, err error) {
	if err != nil {
		e.refused.Store(&err)
		e.log.Error("the changed configuration is not usable; the last good one stays in force", "error", e.secrets.Load().Text(err.Error()))
		return
	}
	const enough = 30 * time.Second
	ctx, cancel := context.WithTimeout(e.reloads, enough)
	defer cancel()
	if err := e.takeRead(ctx, cfg); err != nil && e.reloads.Err() == nil && !e.core.Closed() {
		// It may be in force, and was only not waited for, or a newer one is.
		if now := e.Config(); now != cfg && !cfg.OlderThan(now) {
			e.refused.Store(&err)
		}
		e.log.Error("the changed configuration was not taken over", "error", e.secrets.Load().Text(err.Error()))
	}
}

// takeRead takes over what the watcher has read, which nobody held reload for. If
// what is in force began to be read after that, either may have what the other
// lacks, and the watcher will not tell again: the files say what is so.
func (e *Engine) takeRead(ctx context.Context, cfg *config.Config) error {
	if err := e.lockReload(e.reloads); err != nil { // ctx is for what comes then
		return err
	}
	defer e.unlockReload()
	if cfg.OlderThan(e.Config()) {
		return e.readAgain(ctx)
	}
	return e.take(ctx, cfg)
}

// take puts a configuration in force; reload is held.
func (e *Engine) take(ctx context.Context, cfg *config.Config) error {
	if e.core.Closed() {
		return actors.ShutDown()
	}
	old := e.config.Load()
	rules, err := toolRules(cfg)
	if err != nil {
		return err
	}
	var settings []string // that changed
	change := actors.Change{NewRules: !reflect.DeepEqual(old.Settings.ToolRules, cfg.Settings.ToolRules), Rules: rules, All: cfg.Servers, LeftOut: cfg.LeftOut, Drain: cfg.Settings.DrainTimeout}
	for _, a := range config.Diff(old, cfg) {
		switch a := a.(type) {
		case config.ServerAdded:
			change.Added = append(change.Added, a.Server)
		case config.ServerRemoved:
			change.Removed = append(change.Removed, a.Server.Name)
			e.former = append(e.former, a.Server)
		case config.ServerChanged:
			change.Changed = append(change.Changed, a.New)
			e.former = append(e.former, a.Old)
		case config.ServerUpdated:
			change.Updated = append(change.Updated, a.New)
		case config.PoolChanged:
			p := poolSettings(a.New)
			change.Settings = &p
		case config.SettingsChanged:
			settings = a.Paths
			if len(a.Restart) > 0 {
				e.log.Warn("some changed settings take effect only after a restart of metamcp", "settings", a.Restart)
			}
		}
	}
	e.learnSecrets(cfg)
	e.config.Store(cfg)
	e.refused.Store(nil)
	e.expose.scrubChanged(old, cfg)
	e.mayRun(cfg)
	e.core.ConfigureSandbox(sandboxSettings(cfg.Settings.Execute))
	e.report(cfg)
	if embedderSettings(old) != embedderSettings(cfg) {
		e.core.UseEmbedder(e.embedder(cfg))
	}
	e.core.SetPins(pinMode(cfg))
	e.core.ConfigureCatalog(cfg.Settings.Catalog.TTL, cfg.Settings.Catalog.Cleanup)
	e.log.Info("configuration reloaded", "added", len(change.Added), "changed", len(change.Changed)+len(change.Updated), "removed", len(change.Removed), "settings", settings)
	err = cancelled(ctx, e.core.Apply(ctx, change), "the new configuration is in force, but not all of metamcp follows it yet")
	e.announceFiles(ctx) // by now it has their servers
	e.times.keepOnly(e.thereIs)
	e.keeper.slimGone(e.thereIs)
	e.logins.KeepOnly(e.thereIs)
	return err
}

// Drain refuses new calls and gives those in flight until deadline; then all
// children end. The channel is closed when no process is left. A later Drain
// or Close may shorten the time. One that leaves none also ends the scripts and all
// else that sessions which end still wait for.
func (e *Engine) Drain(deadline time.Time) <-chan struct{} {
	if !deadline.After(time.Now()) {
		e.hurryOnce.Do(func() { close(e.hurry) })
	}
	return e.core.Drain(deadline)
}

// Close ends the runtime: calls in flight get the configured drain timeout, then every
// child is ended and reaped, for which [Engine.EndTime] is enough. ctx bounds that; what
// is left of the children then is killed, so give it the sum of both, and none that may
// have ended, such as that of signal.NotifyContext. What Close writes at the end, such as the audit
// log, is written all the same, and has some seconds of its own. The error says what did
// not stop in time, or could not be written. Close may be called again, or by two at once:
// all of them wait for the end and say the same of what could not be written. It is no
// *[Error].
func (e *Engine) Close(ctx context.Context) error {
	return e.end(ctx, time.Now().Add(e.Config().Settings.DrainTimeout))
}

// end is Close with a time for what is in flight. Of an engine that did not start there
// may be a part only.
func (e *Engine) end(ctx context.Context, deadline time.Time) error {
	if e.watcher != nil {
		e.watcher.Stop()
	}
	e.pins.Close()
	e.cures.close()
	e.expose.close()
	var err error
	if e.core != nil {
		err = e.core.Close(ctx, deadline)
	}
	e.ending.Do(func() {
		rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), restTime)
		defer cancel()
		e.endErr = e.endRest(rest)
	})
	return errors.Join(err, e.endErr)
}

// endRest ends what is left once the actors have stopped.
func (e *Engine) endRest(ctx context.Context) error {
	if e.remote != nil {
		e.remote.Close()
	}
	if e.logins != nil {
		e.logins.Close()
	}
	if e.guard != nil {
		e.guard.Close()
	}
	if e.leftovers != nil {
		// A host that ends at once still ends what an earlier one left, but
		// not at the price of an end of its own that takes too long.
		const enough = 2 * time.Second
		limit := time.NewTimer(enough)
		select {
		case <-e.leftovers:
		case <-limit.C:
		case <-ctx.Done():
		}
		limit.Stop()
	}
	err := e.audit.close(ctx)
	e.endReloads()
	if e.watcher != nil {
		// Last, since the file system of the configuration may hang: no
		// child waits for that.
		e.watcher.Close(ctx)
	}
	e.endViews()
	return errors.Join(err, e.stopTrace(ctx), e.telemetry.Close(ctx))
}
