package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
	"github.com/metamcp/metamcp/supervision/kernel"
)

const (
	// wallGrace is what a worker has beyond the time of its script to say where
	// the script is; then it is killed.
	wallGrace = time.Second
	// freeWait is how long a script may wait for its worker without having less
	// time for it: a start takes a moment, on a loaded machine several seconds, and
	// a script of little time is no less worth the wait.
	freeWait = 5 * time.Second
	// leastTime is what a script must have left to begin, or half of its time where
	// that is less.
	leastTime = 50 * time.Millisecond
	// maxRunCalls bounds the calls that a report tells one by one.
	maxRunCalls = 10_000
	// replyShare is how much of the heap one reply may take.
	replyShare = 4
)

var errWorkerEnded = errors.New("its process ended and gave no reason")

// runActor is one script: it hands it to a worker, turns what it asks for into
// messages to the same actors as everybody's calls, and ends all of that with
// the script. It lives until the last of its calls was answered.
type runActor struct {
	e        *Engine
	run      *messages.Run
	settings SandboxSettings
	most     time.Duration // that a script may have
	deadline time.Time
	ctx      context.Context // of what it has others do; ends with the script
	over     context.CancelFunc

	self    *kernel.PID
	worker  SandboxWorker // nil until it has one
	ear     *workerEar
	asked   time.Time
	started time.Time // zero: it has no worker
	due     *kernel.Timer
	stands  standing

	calls   map[uint64]*scriptCall // that are out, by their id
	asking  int                    // for anything else
	wanted  int                    // calls and searches, all in all
	done    int                    // calls
	output  int64                  // of the console, in bytes
	records []messages.RunCall
	more    int // calls that have no record
	lost    []messages.LostDigits
	ended   bool
}

// What reaches a run.
type (
	// scriptAnswer is the answer to one of its calls.
	scriptAnswer struct {
		*messages.Answer
		trace uint64
	}
	// scriptFound is what a search found.
	scriptFound struct {
		ask   uint64
		value json.RawMessage
		err   *messages.Error
	}
	// runDue says that the time is over.
	runDue struct{}
)

func newRunActor(e *Engine, run *messages.Run, settings SandboxSettings) *runActor {
	a := &runActor{e: e, run: run, settings: settings, calls: map[uint64]*scriptCall{}}
	wall := settings.Limits.Wall
	a.most = wall
	if run.Timeout > 0 && run.Timeout < wall {
		wall = run.Timeout
	}
	a.settings.Limits.Wall = wall
	a.asked = time.Now()
	a.deadline = a.asked.Add(wall)
	a.ctx, a.over = context.WithCancel(context.Background())
	return a
}

// StateName implements kernel.Stater.
func (a *runActor) StateName() string {
	switch {
	case a.ended:
		return "ENDED"
	case a.worker == nil:
		return "WAITING"
	}
	return "RUNNING"
}

// Receive implements kernel.Actor.
func (a *runActor) Receive(ctx *kernel.Context, msg any) {
	ctx.Correlate(a.run.Trace)
	switch m := msg.(type) {
	case kernel.Started:
		a.self = ctx.Self()
		a.e.trace.began(messages.TraceRequest, a.asCall(), a.self.GetId())
		a.due = ctx.After(time.Until(a.deadline)+freeWait, &runDue{})
		if a.run.Cancelled != nil && a.run.Cancelled.Load() { // perhaps before it was on record
			a.cancel(ctx, "the caller gave up")
		}
	case *runBegin:
		a.onBegin(ctx, m)
	case *scriptAsked:
		a.onAsked(ctx, m.ScriptAsk)
	case *scriptSaid:
		a.onSaid(ctx, m.line)
	case *scriptEnded:
		a.onEnded(ctx, m.outcome)
	case *scriptAnswer:
		a.onAnswer(ctx, m.Answer)
	case *scriptStands:
		a.onStands(ctx, m)
	case *scriptFound:
		a.asking--
		a.reply(&messages.ScriptReply{ID: m.ask, Value: m.value, Err: scriptError(m.err)})
	case *keptResultFound:
		a.onKept(m)
	case *messages.Cancel:
		a.cancel(ctx, m.Reason)
	case *runDue:
		a.onDue(ctx)
	case *scriptWorker:
		a.onLost(ctx, m.err)
	case kernel.Stopping:
		a.onStopping(ctx)
		return
	}
	if a.ended && len(a.calls) == 0 && a.asking == 0 {
		ctx.Stop(a.self)
	}
}

// onBegin hands the script to its worker.
func (a *runActor) onBegin(ctx *kernel.Context, m *runBegin) {
	if a.ended {
		return // the sandbox hears of that
	}
	limits := a.settings.Limits
	limits.Asked = limits.Wall
	if left := time.Until(a.deadline) + freeWait; left < limits.Wall {
		if left < leastTime && left < limits.Wall/2 {
			a.onDue(ctx) // too late to begin
			return
		}
		limits.Wall = max(left.Round(10*time.Millisecond), time.Millisecond)
	}
	script := &messages.Script{
		Code: a.run.Code, Language: a.run.Language, Servers: a.e.scriptServers(a.run.Only), Results: m.results, Args: a.run.Args, Limits: limits,
	}
	if err := m.worker.Run(a.run.ID, script); err != nil {
		ctx.Event("worker-failed", err.Error(), 0)
		ctx.Send(ctx.Parent(), &runReturned{a.run.ID})
		return
	}
	a.worker, a.ear = m.worker, m.ear
	a.started = time.Now()
	a.startTime(ctx, limits.Wall+wallGrace)
}

// onSaid passes a line of the console on.
func (a *runActor) onSaid(ctx *kernel.Context, l messages.ConsoleLine) {
	if a.ended {
		return
	}
	// The worker counts the value too, and ends the script before.
	if a.output += int64(len(l.Text)); a.output > a.settings.Limits.OutputBytes+1<<20 {
		a.fail(ctx, &messages.ScriptFailure{
			Kind:    messages.FailureOutput,
			Message: fmt.Sprintf("the script wrote more than %d bytes to its console", a.settings.Limits.OutputBytes),
			Hint:    "Write less, or return a summary.",
		})
		return
	}
	a.run.Reply.Said(l)
}

func (a *runActor) onEnded(ctx *kernel.Context, o *messages.ScriptOutcome) {
	if f := o.Failure; f != nil && f.Kind == messages.FailureTimeout {
		f.Hint = a.moreTime(f.Hint)
	}
	a.end(ctx, &messages.RunReport{Outcome: o}, true)
}

// moreTime is the hint for a script whose own time was over, which is not that
// of one of its calls: whose bound it was, and what else helps.
func (a *runActor) moreTime(or string) string {
	wall := a.settings.Limits.Wall
	if wall < a.most {
		return fmt.Sprintf("The time of the whole script, %d ms, was over: a longer timeoutMs, up to %d (metamcp.execute.timeoutMs), gives it more; or %s",
			wall.Milliseconds(), a.most.Milliseconds(), or)
	}
	return fmt.Sprintf("The time of the whole script, %d ms, was over, and no timeoutMs may be longer (metamcp.execute.timeoutMs): %s; the user may raise that setting",
		a.most.Milliseconds(), or)
}

// onDue ends a script whose time is over, and which its worker did not end.
func (a *runActor) onDue(ctx *kernel.Context) {
	switch {
	case a.ended:
	case a.worker == nil:
		a.fail(ctx, &messages.ScriptFailure{
			Kind:    messages.FailureTimeout,
			Message: fmt.Sprintf("the script did not begin within %v: other scripts were before it, or its process took long to start", a.settings.Limits.Wall+freeWait),
			Hint:    fmt.Sprintf("Run fewer scripts at the same time, or give this one a longer timeoutMs, up to %d (metamcp.execute.timeoutMs).", a.most.Milliseconds()),
		})
	default:
		a.fail(ctx, &messages.ScriptFailure{
			Kind:    messages.FailureTimeout,
			Message: fmt.Sprintf("the script took longer than %v and did not react any more, so its process was killed", a.settings.Limits.Wall),
			Hint:    a.moreTime("look for an endless loop, a very slow regular expression or a huge value"),
		})
	}
}

func (a *runActor) onLost(ctx *kernel.Context, err error) {
	if a.ended {
		return
	}
	if own := (*messages.Error)(nil); errors.As(err, &own) {
		a.end(ctx, &messages.RunReport{Err: own}, false) // it was turned away
		return
	}
	if a.worker == nil {
		a.end(ctx, &messages.RunReport{Err: &messages.Error{
			Code: messages.CodeSandbox, Retryable: true, Cause: err, Message: orUnknown(err).Error(),
			Hint: "Try again; if it stays so, call the tools one by one and ask the user to look into the log of metamcp.",
		}}, false)
		return
	}
	a.fail(ctx, &messages.ScriptFailure{
		Kind:    messages.FailureCrashed,
		Message: "the process of the script was lost: " + orUnknown(err).Error(),
		Hint:    "What the script had called before has happened. It may have needed too much memory; do less at a time.",
	})
}

func (a *runActor) cancel(ctx *kernel.Context, reason string) {
	if reason == "" {
		reason = "the caller gave up"
	}
	a.end(ctx, &messages.RunReport{Err: &messages.Error{
		Code: messages.CodeCancelled, Message: "the script was cancelled: " + reason,
		Hint: "What the script had called before has happened; whether a call that was under way took effect is unknown.",
	}}, false)
}

func (a *runActor) fail(ctx *kernel.Context, f *messages.ScriptFailure) {
	a.end(ctx, &messages.RunReport{Outcome: &messages.ScriptOutcome{Failure: f}}, false)
}

// end answers the caller, once, and ends the worker and the calls that are out.
func (a *runActor) end(ctx *kernel.Context, r *messages.RunReport, finished bool) {
	if a.ended {
		return
	}
	a.ended = true
	a.due.Stop()
	a.over()
	failed := r.Err != nil || r.Outcome.Failure != nil
	ctx.Send(ctx.Parent(), &runOver{id: a.run.ID, finished: finished, failed: failed})
	for _, c := range a.calls {
		a.record(c, string(messages.CodeCancelled))
		a.e.Cancel(c.call, "its script has ended")
	}
	r.Calls, r.MoreCalls, r.Cancelled, r.Lost, r.Took = a.records, a.more, len(a.calls), a.lost, time.Since(a.asked)
	r.Waited = r.Took
	if !a.started.IsZero() {
		r.Waited = a.started.Sub(a.asked)
	}
	a.records = nil
	a.e.trace.runEnded(a.asCall(), r, a.self.GetId())
	a.run.Reply.Ended(r)
}

// onStopping ends what is left: the host closes, or the actor broke.
func (a *runActor) onStopping(ctx *kernel.Context) {
	if !a.ended {
		err := errShutDown("the script ran or waited for its turn")
		if !a.e.closed.Load() {
			err = &messages.Error{Code: messages.CodeSandbox, Message: "running the script broke inside metamcp", Hint: "Please report this with the log of the host."}
		}
		a.end(ctx, &messages.RunReport{Err: err}, false)
	}
	for _, c := range a.calls {
		a.e.observer.ended(messages.TraceReturn, c.call, c.started, &messages.Answer{Call: c.call.ID, Err: supervision.Cancelled(c.call), Server: c.call.Server}, a.self.GetId())
	}
	a.calls = nil
}

// asCall is the run as the trace shows requests.
func (a *runActor) asCall() *messages.Call {
	return &messages.Call{Meta: a.run.Meta, ID: a.run.ID, Tool: ExecuteTool}
}
