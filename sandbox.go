package metamcp

import (
	"os"
	"runtime"
	"time"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/sandbox"
	scripts "github.com/metamcp/metamcp/integration/sandbox/worker"
	"github.com/metamcp/metamcp/messages"
)

// workerIdle is how long a process is kept ready after the last script.
const workerIdle = 5 * time.Minute

// What makes a program a worker: its name and its only argument. No program
// gets both by accident.
const (
	workerName    = "metamcp-sandbox"
	workerCommand = "sandbox-worker"
)

// Importing this package is what makes a program able to be its own worker.
func init() {
	if len(os.Args) == 2 && os.Args[0] == workerName && os.Args[1] == workerCommand {
		// On a goroutine of its own: while packages are initialised, the first
		// one is bound to its thread, and each wake-up of it dear.
		status := make(chan int)
		go func() { status <- scripts.Main(os.Stdin, os.Stdout, os.Stderr) }() //nolint:forbidigo // of a process of its own
		os.Exit(<-status)
	}
}

// sandboxLauncher lets the sandbox's actor start processes.
type sandboxLauncher struct{ l *sandbox.Launcher }

func (e *Engine) sandboxLauncher() (actors.SandboxLauncher, error) {
	path := e.opts.Sandbox
	switch {
	case path != "":
	case runtime.GOOS == "linux":
		path = "/proc/self/exe" // this very file, even if another version has taken its name
	default:
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		path = self
	}
	l, err := sandbox.NewLauncher(sandbox.Options{Path: path, Args: []string{workerCommand}, Log: e.log})
	if err != nil {
		return nil, err
	}
	return sandboxLauncher{l}, nil
}

// Launch implements actors.SandboxLauncher.
func (s sandboxLauncher) Launch(ear actors.SandboxEar) (actors.SandboxWorker, error) {
	w, err := s.l.Launch(sandboxEar{ear})
	if err != nil {
		return nil, err
	}
	return sandboxWorker{w}, nil
}

// sandboxWorker is a process as the sandbox's actor sees it.
type sandboxWorker struct{ *sandbox.Worker }

// Run implements actors.SandboxWorker.
func (w sandboxWorker) Run(run uint64, s *messages.Script) error {
	servers := make([]sandbox.Server, len(s.Servers))
	for i := range s.Servers {
		servers[i] = sandbox.Server(s.Servers[i])
	}
	return w.Worker.Run(run, &sandbox.Script{
		Code: s.Code, Language: languageOf(s.Language), Servers: servers, Results: s.Results, Args: s.Args, Limits: sandbox.Limits(s.Limits),
	})
}

// Reply implements actors.SandboxWorker.
func (w sandboxWorker) Reply(run uint64, r *messages.ScriptReply) {
	w.Worker.Reply(run, &sandbox.Reply{ID: r.ID, Value: r.Value, Err: (*sandbox.CallError)(r.Err)})
}

func languageOf(l messages.ScriptLanguage) sandbox.Language {
	switch l {
	case messages.ScriptJavaScript:
		return sandbox.JavaScript
	case messages.ScriptTypeScript:
		return sandbox.TypeScript
	default:
		return sandbox.Auto
	}
}

// sandboxEar is an actor as a process sees it.
type sandboxEar struct{ ear actors.SandboxEar }

// Ready implements sandbox.Ear.
func (e sandboxEar) Ready(s sandbox.Status) { e.ear.Ready(messages.Confinement(s)) }

// Asked implements sandbox.Ear.
func (e sandboxEar) Asked(run uint64, a *sandbox.Ask) {
	ask := &messages.ScriptAsk{ID: a.ID, Server: a.Server, Tool: a.Tool, Args: a.Args, TimeoutMs: a.TimeoutMs, Raw: a.Raw}
	switch a.Kind {
	case sandbox.AskDiscover:
		ask.Kind = messages.AskDiscover
	case sandbox.AskResult:
		ask.Kind = messages.AskResult
	default:
		ask.Kind = messages.AskCall
	}
	e.ear.Asked(run, ask)
}

// Said implements sandbox.Ear.
func (e sandboxEar) Said(run uint64, l sandbox.Line) { e.ear.Said(run, messages.ConsoleLine(l)) }

// Finished implements sandbox.Ear.
func (e sandboxEar) Finished(run uint64, o *sandbox.Outcome) {
	out := &messages.ScriptOutcome{
		Value: o.Value, Dropped: o.Dropped, Cancelled: o.Cancelled, Sleeping: o.Sleeping,
	}
	if f := o.Failure; f != nil {
		out.Failure = &messages.ScriptFailure{
			Kind: messages.FailureKind(f.Kind.String()), Message: f.Message, Hint: f.Hint, Line: f.Line, Column: f.Column,
			Excerpt: f.Excerpt, Stack: f.Stack, Thrown: (*messages.ScriptError)(f.Thrown),
		}
	}
	e.ear.Finished(run, out)
}

// Gone implements sandbox.Ear.
func (e sandboxEar) Gone(err error) { e.ear.Gone(err) }

func sandboxSettings(s config.ExecuteSettings) actors.SandboxSettings {
	limits := sandbox.Limits{
		Wall: s.Timeout, CodeBytes: s.CodeKB * 1000, HeapBytes: int64(s.MemoryMB) << 20, OutputBytes: int64(s.OutputMB) * 1000 * 1000, Calls: s.MaxCalls,
	}
	return actors.SandboxSettings{Limits: messages.ScriptLimits(limits.WithDefaults()), Concurrent: s.MaxConcurrent, Idle: workerIdle}
}
