package actors

import (
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// SandboxLauncher starts the processes in which scripts run.
type SandboxLauncher interface {
	// Launch starts one and does not wait until it is ready. It may take as
	// long as a fork and an exec. The ear hears of the process until Gone.
	Launch(ear SandboxEar) (SandboxWorker, error)
}

// SandboxEar hears a worker. Its methods are called in order from one
// goroutine, and none of them blocks.
type SandboxEar interface {
	// Ready says that a script may begin, and what holds the process.
	Ready(c messages.Confinement)
	Asked(run uint64, a *messages.ScriptAsk)
	Said(run uint64, l messages.ConsoleLine)
	Finished(run uint64, o *messages.ScriptOutcome)
	// Gone says that the process has ended and was reaped; it comes last, and
	// exactly once.
	Gone(err error)
}

// SandboxWorker is the way to a worker, which runs one script at a time. Its
// methods may be called from any goroutine and never block.
type SandboxWorker interface {
	Run(run uint64, s *messages.Script) error
	Reply(run uint64, r *messages.ScriptReply)
	// Stand lets the script's time stand still while it waits, or go on.
	Stand(run uint64, still bool)
	// Kill ends the process at once; Gone follows. Twice does no harm.
	Kill()
	PID() int
}

// workerState is what a worker is doing.
type workerState uint8

const (
	workerStarting workerState = iota
	workerIdle
	workerRunning
	workerEnding
)

func (s workerState) String() string {
	return [...]string{"starting", "ready", "running", "ending"}[s]
}

// slot is one worker as the sandbox's actor knows it.
type slot struct {
	n     uint64
	state workerState
	ear   *workerEar
	w     SandboxWorker // nil until its launch is over
	ready bool          // it said so; perhaps before the launch was over
	run   *sandboxRun   // that it was given to
	since time.Time
	late  *kernel.Timer // of its start

	confined messages.Confinement
}

// workerEar tells the actors what a worker says: what concerns a script goes to
// the actor of its run without a stop in between.
type workerEar struct {
	sys     *kernel.System
	sandbox *kernel.PID
	n       uint64
	run     atomic.Pointer[earRun]
	gone    chan struct{} // closed with the process
}

// earRun is the run that a worker works on.
type earRun struct {
	id  uint64
	pid *kernel.PID
}

// What a worker says.
type (
	workerLaunched struct {
		n   uint64
		w   SandboxWorker
		err error
	}
	workerReady struct {
		n        uint64
		confined messages.Confinement
	}
	workerGone struct {
		n   uint64
		err error
	}
	// workerLate says that a worker should have been ready by now.
	workerLate   struct{ n uint64 }
	scriptAsked  struct{ *messages.ScriptAsk }
	scriptSaid   struct{ line messages.ConsoleLine }
	scriptEnded  struct{ outcome *messages.ScriptOutcome }
	scriptWorker struct{ err error } // its process is gone
)

// What becomes of a worker is of no matter to a sandbox that has stopped: it
// ended all of them, and whoever started one waits for its end. The same goes
// for the end of runs and sessions, and for what a worker still says to a run
// that is over.
func (*workerLaunched) Transient() {}
func (*workerReady) Transient()    {}
func (*workerGone) Transient()     {}
func (*runOver) Transient()        {}
func (*runReturned) Transient()    {}
func (*sessionOver) Transient()    {}
func (*forgetResults) Transient()  {}
func (*scriptAsked) Transient()    {}
func (*scriptSaid) Transient()     {}
func (*scriptEnded) Transient()    {}
func (*scriptWorker) Transient()   {}

func (e *workerEar) Ready(c messages.Confinement) {
	e.sys.Send(e.sandbox, &workerReady{e.n, c})
}

func (e *workerEar) Asked(run uint64, a *messages.ScriptAsk) {
	if r := e.run.Load(); r != nil && r.id == run {
		e.sys.Send(r.pid, &scriptAsked{a})
	}
}

func (e *workerEar) Said(run uint64, l messages.ConsoleLine) {
	if r := e.run.Load(); r != nil && r.id == run {
		e.sys.Send(r.pid, &scriptSaid{l})
	}
}

func (e *workerEar) Finished(run uint64, o *messages.ScriptOutcome) {
	if r := e.run.Load(); r != nil && r.id == run {
		e.sys.Send(r.pid, &scriptEnded{o})
	}
}

func (e *workerEar) Gone(err error) {
	e.sys.Send(e.sandbox, &workerGone{e.n, err})
	close(e.gone)
}
