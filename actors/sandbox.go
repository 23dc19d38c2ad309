package actors

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
	"github.com/metamcp/metamcp/supervision/kernel"
)

const (
	// maxWaitingRuns bounds the scripts that wait for their turn, beside those that
	// have theirs and wait for a process.
	maxWaitingRuns = 256
	// workerStartup bounds the start of a worker, which takes some 50 ms on an
	// idle machine.
	workerStartup = 30 * time.Second
	// spareAfter is how long a script may run before the next worker is started:
	// a start takes a processor for a while, and most scripts are over sooner. While
	// one waits for the start of its own worker, none is started beside that.
	spareAfter = 250 * time.Millisecond
	// answerFirst is how long after the last script the next worker is started
	// where nobody waits for one: the answer is on its way, and shares the
	// processors with a start.
	answerFirst = 5 * time.Millisecond
	// maxFailedStarts is how many workers in a row may fail to start before
	// those who wait for one are told.
	maxFailedStarts = 3
	// maxAssignments is how many workers may be lost under a script before it
	// has begun.
	maxAssignments = 3
)

// SandboxSettings shape the runs that begin from now on.
type SandboxSettings struct {
	Limits messages.ScriptLimits
	// Concurrent is how many scripts run at once; others wait.
	Concurrent int
	// Idle is how long a worker is kept ready after the last script.
	Idle time.Duration
}

// sandboxActor owns the processes in which scripts run. None is started before
// the first script; from then on one is kept ready, until nobody has needed it
// for a while. It keeps nothing of a script but what a client may read later.
type sandboxActor struct {
	e        *Engine
	launcher SandboxLauncher
	settings SandboxSettings

	self    *kernel.PID
	lastRun uint64
	last    uint64 // number of the newest worker
	slots   map[uint64]*slot
	runs    map[uint64]*sandboxRun // by the id of the request
	waiting []*sandboxRun          // in the order in which they came

	used         bool // not long ago, so that one worker is kept ready
	failedStarts int  // workers that were lost without having done anything, in a row
	ended        uint64
	failed       uint64
	idle         *kernel.Timer
	idleGen      uint64
	begun        bool // a script has begun just now: no spare yet
	spare        *kernel.Timer
	spareGen     uint64

	kept    keptResults
	keptGen uint64
}

// sandboxRun is a script that was taken.
type sandboxRun struct {
	id      uint64
	n       uint64 // in the name of its actor
	session uint64
	sharer  uint64 // whose share of the places it takes
	pid     *kernel.PID
	slot    *slot // nil while it waits
	tries   int   // workers that it was given to
}

// What the sandbox and its runs say to each other, and what the engine says to
// the sandbox. A script comes as *messages.Run, its end as *messages.Cancel.
type (
	// runBegin gives a run its worker.
	runBegin struct {
		worker  SandboxWorker
		ear     *workerEar
		results []string
	}
	// runReturned gives the worker back, which was lost before the script began.
	runReturned struct {
		id uint64
	}
	// runOver says that a run has answered its caller.
	runOver struct {
		id       uint64
		finished bool // the worker itself said so
		failed   bool
	}
	// wantResult asks for a kept result.
	wantResult struct {
		run     *kernel.PID
		ask     uint64
		session uint64
		id      string
	}
	// keptResultFound answers wantResult; value is nil where there is none.
	keptResultFound struct {
		ask   uint64
		value json.RawMessage
	}
	// keepResult keeps a value for later runs of the session. The id comes on
	// reply, "" where it cannot be kept, or the session is over.
	keepResult struct {
		session uint64
		value   json.RawMessage
		reply   chan<- string
	}
	// sessionOver ends the scripts of a session, and frees what was kept for it.
	sessionOver struct{ session uint64 }
	// forgetResults frees what was kept for a session until it was over.
	forgetResults    struct{ session uint64 }
	configureSandbox struct{ settings SandboxSettings }
	sandboxIdle      struct{ gen uint64 }
	spareDue         struct{ gen uint64 }
	keptDue          struct{ gen uint64 }
)

func newSandbox(e *Engine, launcher SandboxLauncher, settings SandboxSettings) *sandboxActor {
	return &sandboxActor{e: e, launcher: launcher, settings: settings, slots: map[uint64]*slot{}, runs: map[uint64]*sandboxRun{}}
}

// Receive implements kernel.Actor.
func (s *sandboxActor) Receive(ctx *kernel.Context, msg any) {
	switch m := msg.(type) {
	case *messages.Run:
		s.onRun(ctx, m)
	case *messages.Cancel:
		if r := s.runs[m.Call]; r != nil {
			ctx.Send(r.pid, m)
		}
	case *runReturned:
		s.onReturned(ctx, m)
	case *runOver:
		s.onOver(ctx, m)
	case *workerLaunched:
		s.onLaunched(ctx, m)
	case *workerReady:
		if w := s.slots[m.n]; w != nil {
			w.ready, w.confined = true, m.confined
			s.settle(ctx)
		}
	case *workerLate:
		if w := s.slots[m.n]; w != nil && w.state == workerStarting {
			ctx.Event("worker-late", "a worker was not ready within "+workerStartup.String()+" and is ended", 0)
			s.end(w)
			s.startFailed(ctx, fmt.Errorf("it was not ready within %v", workerStartup))
			s.settle(ctx)
		}
	case *workerGone:
		s.onGone(ctx, m)
	case *wantResult:
		ctx.Send(m.run, &keptResultFound{m.ask, s.kept.get(m.session, m.id)})
	case *keepResult:
		if _, open := s.e.open.Load(m.session); !open {
			m.reply <- "" // nobody would read it, nor say that it can go
			break
		}
		m.reply <- s.kept.keep(m.session, s.e.Sharer(m.session), m.value, time.Now())
		s.expire(ctx)
	case *keptDue:
		if m.gen == s.keptGen {
			s.expire(ctx)
		}
	case *sessionOver:
		s.kept.forget(m.session)
		for _, r := range s.runs {
			if r.session == m.session {
				ctx.Send(r.pid, &messages.Cancel{Call: r.id, Reason: "the client is gone"})
			}
		}
	case *forgetResults:
		s.kept.forget(m.session)
	case *configureSandbox:
		s.settings = m.settings
		s.settle(ctx)
	case *sandboxIdle:
		s.onIdle(ctx, m)
	case *spareDue:
		if m.gen == s.spareGen {
			s.begun = false
			s.settle(ctx)
		}
	case kernel.Started:
		s.self = ctx.Self()
	case kernel.Stopping:
		for _, w := range s.slots {
			s.end(w)
		}
	}
}

// onRun takes a script, or refuses it.
func (s *sandboxActor) onRun(ctx *kernel.Context, m *messages.Run) {
	switch {
	case s.e.closed.Load():
		refuseRun(m, supervision.ShuttingDown(""))
		return
	case len(s.waiting) >= maxWaitingRuns+s.free() && !s.displace(ctx, s.e.Sharer(m.Session)):
		refuseRun(m, s.crowded())
		return
	}
	s.used = true
	s.lastRun++
	r := &sandboxRun{id: m.ID, n: s.lastRun, session: m.Session, sharer: s.e.Sharer(m.Session)}
	settings := s.settings
	pid, err := ctx.Spawn("run~"+strconv.FormatUint(r.n, 10), func() kernel.Actor { return newRunActor(s.e, m, settings) }, kernel.Inline())
	if err != nil {
		refuseRun(m, &messages.Error{Code: messages.CodeSandbox, Message: "the actor of the script could not be started: " + err.Error(), Cause: err, Hint: "Try again; the log of the host says more."})
		return
	}
	r.pid = pid
	s.runs[r.id] = r
	s.waiting = append(s.waiting, r)
	s.settle(ctx)
}

// settle gives ready workers to those who wait, and starts as many as are
// missing.
func (s *sandboxActor) settle(ctx *kernel.Context) {
	for _, w := range s.slots {
		if w.state == workerStarting && w.ready && w.w != nil {
			w.state = workerIdle
			w.late.Stop()
		}
	}
	free := s.free()
	next := s.nextRun()
	for ; free > 0 && next >= 0; next = s.nextRun() {
		w := s.next()
		if w == nil {
			break
		}
		r := s.waiting[next]
		s.waiting = slices.Delete(s.waiting, next, next+1)
		s.assign(ctx, r, w)
		free--
	}
	wanted := len(s.waiting)
	if next < 0 {
		wanted = 0 // those who wait have their share of the places
	}
	wanted = min(wanted, free)
	spare := 0
	if s.used && s.failedStarts == 0 && wanted == 0 && !s.begun {
		spare = 1
	}
	for missing := wanted + spare - s.count(workerIdle) - s.count(workerStarting); missing > 0; missing-- {
		s.launch(ctx)
	}
	s.idleGen++
	s.idle.Stop()
	if len(s.runs) == 0 && s.used {
		s.idle = ctx.After(s.settings.Idle, &sandboxIdle{s.idleGen})
	}
	s.publish()
}

// nextRun is the place of the script that goes next among those that wait: the
// first of the client that has the fewest running in all its sessions, and never
// more than three quarters of the places for one client. -1: none may go.
func (s *sandboxActor) nextRun() int {
	places := max(1, s.settings.Concurrent)
	share := places - places/4
	running := map[uint64]int{}
	for _, w := range s.slots {
		if w.state == workerRunning && w.run != nil {
			running[w.run.sharer]++
		}
	}
	best := -1
	for i, r := range s.waiting {
		n := running[r.sharer]
		if n < share && (best < 0 || n < running[s.waiting[best].sharer]) {
			best = i
		}
	}
	return best
}

// free is how many scripts more may run now.
func (s *sandboxActor) free() int { return max(0, max(1, s.settings.Concurrent)-s.running()) }

func (s *sandboxActor) running() int { return s.count(workerRunning) }

func (s *sandboxActor) count(state workerState) int {
	n := 0
	for _, w := range s.slots {
		if w.state == state {
			n++
		}
	}
	return n
}

// next is the worker that has been ready for longest, nil where none is.
func (s *sandboxActor) next() *slot {
	var found *slot
	for _, w := range s.slots {
		if w.state == workerIdle && (found == nil || w.n < found.n) {
			found = w
		}
	}
	return found
}

func (s *sandboxActor) assign(ctx *kernel.Context, r *sandboxRun, w *slot) {
	w.state, w.run, r.slot = workerRunning, r, w
	r.tries++
	w.ear.run.Store(&earRun{r.id, r.pid})
	s.begun = true
	s.spareIn(ctx, spareAfter)
	ctx.Send(r.pid, &runBegin{w.w, w.ear, s.kept.ids(r.session)})
}

// spareIn has the next worker started after d and not before.
func (s *sandboxActor) spareIn(ctx *kernel.Context, d time.Duration) {
	s.spareGen++
	s.spare.Stop()
	s.spare = ctx.After(d, &spareDue{s.spareGen})
}

// onReturned finds another worker for a script whose own was lost before it
// could take it.
func (s *sandboxActor) onReturned(ctx *kernel.Context, m *runReturned) {
	r := s.runs[m.id]
	if r == nil {
		return
	}
	if w := r.slot; w != nil {
		r.slot, w.run = nil, nil
		if s.slots[w.n] != nil {
			s.end(w)
		}
	}
	if r.tries >= maxAssignments {
		ctx.Send(r.pid, &scriptWorker{errWorkerEnded})
	} else {
		s.waiting = slices.Insert(s.waiting, 0, r)
	}
	s.settle(ctx)
}

// onOver lets go of a run.
func (s *sandboxActor) onOver(ctx *kernel.Context, m *runOver) {
	r := s.runs[m.id]
	if r == nil {
		return
	}
	delete(s.runs, m.id)
	s.waiting = slices.DeleteFunc(s.waiting, func(o *sandboxRun) bool { return o == r })
	s.ended++
	if m.failed {
		s.failed++
	}
	if m.finished {
		s.failedStarts = 0
	}
	if len(s.runs) == 0 && s.begun {
		s.spareIn(ctx, answerFirst)
	}
	if w := r.slot; w != nil {
		w.run = nil
		if s.slots[w.n] != nil && w.state != workerEnding {
			s.end(w) // whatever it says of itself: it has run a stranger's code
		}
	}
	s.settle(ctx)
}

// expire drops what was kept for too long.
func (s *sandboxActor) expire(ctx *kernel.Context) {
	s.keptGen++
	if next := s.kept.expire(time.Now()); next > 0 {
		ctx.After(next, &keptDue{s.keptGen})
	}
}
