package metamcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/integration/sandbox"
	"github.com/metamcp/metamcp/integration/telemetry"
	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// The parts of a [RunResult].
type (
	// ConsoleLine is one line that a script wrote to its console; its text may
	// hold line feeds.
	ConsoleLine = messages.ConsoleLine
	// RunCall is one call that a script made.
	RunCall = messages.RunCall
	// RunFailure says why a script has no value, and where in its source.
	RunFailure = messages.ScriptFailure
)

// RunRequest is a script to run.
type RunRequest struct {
	// Code is JavaScript or TypeScript: the body of an async function, so that
	// await works everywhere and return gives the value.
	Code string
	// Language is "javascript" or "typescript"; "" takes both.
	Language string
	// Timeout bounds the run, what it waits for its turn above five seconds
	// included; 0, or more than the setting execute.timeoutMs: the setting.
	Timeout time.Duration
	// Servers are those that the script may reach; nil: all.
	Servers []string
	// Args are what the script finds as args, up to a megabyte; nil: there is
	// no such name in it.
	Args []string
	// Console, where not nil, is called with each line of the console as it
	// comes, in order, on the goroutine of Run: the first 1,000 and as many bytes as
	// the setting execute.outputMb allows. One that is slow loses none of them.
	Console func(l ConsoleLine)
	// Progress, where not nil, is called at most twice a second while the
	// script runs and something has happened, on the goroutine of Run.
	Progress func(p RunProgress)
}

// RunProgress is how far a script is.
type RunProgress struct {
	Calls int    // that are done
	Lines int    // of the console
	Last  string // the newest of them
}

// RunResult is what came out of a script.
type RunResult struct {
	// Value is what it returned, as JSON; nil where that was undefined, or the
	// script failed.
	Value json.RawMessage
	// Failure is set where the script failed: it threw, broke a limit or does
	// not parse.
	Failure *RunFailure
	// Console are the lines of the console, up to a megabyte of them; Dropped
	// counts those that are missing.
	Console []ConsoleLine
	Dropped int
	// Calls are the calls that it made, in the order in which they ended, up to
	// 10,000; MoreCalls counts those that are missing.
	Calls     []RunCall
	MoreCalls int
	// NotAwaited counts calls that the script did not wait for, and which were
	// cancelled when it returned.
	NotAwaited int
	// Cancelled counts calls that were under way when the script failed, and
	// were cancelled; nobody knows whether they took effect.
	Cancelled int
	// Sleeping counts sleeps that were under way when the script returned.
	Sleeping int
	// Notes say to the author of the script, a sentence or two each, what was
	// not as it looks.
	Notes  []string
	Took   time.Duration // from the request to the answer
	Waited time.Duration // of that, for its turn and a process
}

// Bounds of the console lines that a result holds.
const (
	maxConsoleLines = 10_000
	maxConsoleBytes = 1 << 20
)

// progressEvery is the shortest time between two calls of Progress.
const progressEvery = 500 * time.Millisecond

// Run runs a script in the sandbox: a process of its own without files,
// network or any other way out but the tools of the configured servers. Its
// calls are the same as those of [Engine.Execute]. A script that fails is no
// error of Run; an error is always an *[Error] and says why the script was not
// run, or not to its end: the sandbox is overloaded, ctx ended, the engine
// closes. When ctx ends, the script, its process and its calls end with it; so they do
// when Console or Progress panics or calls [runtime.Goexit].
func (e *Engine) Run(ctx context.Context, req RunRequest) (*RunResult, error) {
	id := front.NextCall()
	return e.runScript(ctx, req, messages.Meta{Trace: id}, scriptClient{}, e.telemetry.BeginScript(ctx, id))
}

// notHeard is why something is cancelled whose caller has a function that did not return.
const notHeard = "the function with which its caller hears of it panicked, or ended its goroutine"

// scriptClient is who can be asked while a script runs.
type scriptClient struct {
	port messages.ClientPort // nil: nobody
	can  messages.ClientCan
	log  messages.LogLevel
	// shared says that its session is not its own.
	shared bool
}

func (e *Engine) runScript(ctx context.Context, req RunRequest, meta messages.Meta, client scriptClient, span *telemetry.Script) (*RunResult, error) {
	language, err := e.checkRun(&req)
	if cause := ctx.Err(); err == nil && cause != nil {
		err = &Error{
			Code: messages.CodeCancelled, Cause: cause, Message: "the script was cancelled by its caller before it began: " + cause.Error(),
			Hint: "Nothing of it was run.",
		}
	}
	if err != nil {
		span.End(string(err.Code))
		return nil, err
	}
	port := &runPort{wake: make(chan struct{}, 1)}
	clean := &scriptScrub{e: e, code: req.Code}
	port.clean = clean.text
	begin := func(call *messages.Call) {
		clean.called(call.Server)
		span.BeginCall(call)
	}
	run := &messages.Run{
		Meta: meta, ID: meta.Trace, Code: req.Code, Language: language, Timeout: req.Timeout, Only: req.Servers, Args: req.Args,
		Cancelled: new(atomic.Bool), Reply: port, Begin: begin, Client: client.port, Can: client.can, Log: client.log, Shared: client.shared,
		Carried: e.carriedTo(meta.Session),
	}
	begun := time.Now()
	ended := func(report *messages.RunReport) {
		outcome := runOutcome(report)
		span.End(outcome)
		clean.outcome(report)
		if e.audit != nil {
			e.audit.executed(run, report, outcome, begun, clean.counts)
		}
	}
	e.core.Run(run)
	heard := false
	defer func() {
		if !heard { // Console or Progress panicked, or called runtime.Goexit
			e.core.CancelRun(run, notHeard)
			ended(&messages.RunReport{Err: &Error{Code: messages.CodeCancelled, Message: "the script was cancelled: " + notHeard}})
		}
	}()
	report := port.wait(ctx, &req)
	heard = true
	if report == nil {
		e.core.CancelRun(run, "the caller gave up: "+ctx.Err().Error())
		report = &messages.RunReport{Err: &Error{
			Code: messages.CodeCancelled, Cause: ctx.Err(), Message: "the script was cancelled by its caller: " + ctx.Err().Error(),
			Hint: "What the script had called before has happened; whether a call that was under way took effect is unknown.",
		}}
	}
	ended(report)
	if report.Err != nil {
		return nil, report.Err
	}
	o := report.Outcome
	r := &RunResult{
		Value: o.Value, Failure: o.Failure, Console: port.kept, Dropped: o.Dropped + port.dropped,
		Calls: report.Calls, MoreCalls: report.MoreCalls, Took: report.Took, Waited: report.Waited,
	}
	if o.Failure == nil {
		r.NotAwaited, r.Sleeping = o.Cancelled, o.Sleeping
	} else {
		r.Cancelled = report.Cancelled
	}
	if most := e.Config().Settings.Execute.Timeout; req.Timeout > most {
		r.Notes = append(r.Notes, fmt.Sprintf("timeoutMs %d is over the most, %d (metamcp.execute.timeoutMs), which was used.", req.Timeout.Milliseconds(), most.Milliseconds()))
	}
	r.note()
	for _, l := range report.Lost {
		r.Notes = append(r.Notes, lostNote(l))
	}
	return r, nil
}

// carriedTo remembers what results of a script's calls name, as it is remembered
// of calls: a client may read what the script tells it of. nil: there is no client.
func (e *Engine) carriedTo(session uint64) func(server string, result json.RawMessage) {
	c, ok := e.clients.Load(session)
	if !ok {
		return nil
	}
	return c.(client).passed.Carried
}

// note writes the notes.
func (r *RunResult) note() {
	switch {
	case r.leftBehind():
		r.Notes = append(r.Notes, fmt.Sprintf("The script returned nothing while calls (%d) and sleeps (%d) were under way: it did not wait for an async function. "+
			"They were cancelled; whether the calls took effect is unknown. Await every call and every async function: end the script with `return await main()`.", r.NotAwaited, r.Sleeping))
	case r.NotAwaited > 0:
		r.Notes = append(r.Notes, counted(r.NotAwaited, "call was", "calls were")+" not awaited when the script returned, and cancelled; whether it had an effect is unknown. Await every call.")
	}
	if r.Failure == nil && r.Value == nil && !r.leftBehind() {
		r.Notes = append(r.Notes, "The script returned nothing: `return` gives the value. Where an async function makes it, write `return await main()`.")
	}
	if r.Cancelled > 0 {
		r.Notes = append(r.Notes, counted(r.Cancelled, "call was", "calls were")+" under way when the script ended, and cancelled; whether it had an effect is unknown.")
	}
}

// lostNote tells of a number that a script could not hold.
func lostNote(l messages.LostDigits) string {
	if l.Arguments {
		return fmt.Sprintf("Arguments of %s.%s held the number %s: JavaScript does not hold every integer from 2^53 on, so its last digits may be wrong. "+
			"Check what the call did; where the tool takes an id as text, pass a string.", l.Server, l.Tool, l.Number)
	}
	return fmt.Sprintf("A result of %s.%s holds the number %s, which JavaScript cannot hold exactly: as a number its last digits are wrong, also after JSON.parse. "+
		"Take an id from the tool's text with a regular expression (option raw: true), or call the tool without a script.", l.Server, l.Tool, l.Number)
}

// leftBehind tells whether the script ended as one does that forgot to wait for
// its own function.
func (r *RunResult) leftBehind() bool {
	return r.Failure == nil && r.Value == nil && r.NotAwaited+r.Sleeping > 0
}

// runOutcome is "ok" or the code of what went wrong.
func runOutcome(r *messages.RunReport) string {
	switch {
	case r.Err != nil:
		return string(r.Err.Code)
	case r.Outcome.Failure != nil:
		return string(r.Outcome.Failure.Code())
	}
	return outcomeOK
}

// maxScriptArgs bounds the arguments of a script, in bytes.
const maxScriptArgs = 1 << 20

func (e *Engine) checkRun(req *RunRequest) (messages.ScriptLanguage, *Error) {
	bad := func(message, hint string) (messages.ScriptLanguage, *Error) {
		return 0, &Error{Code: messages.CodeValidation, Message: message, Hint: hint}
	}
	if req.Code == "" {
		return bad("there is no code", "Pass the script as code.")
	}
	if !utf8.ValidString(req.Code) {
		return bad("the code is no valid UTF-8", "Save it as UTF-8, which JavaScript is written in.")
	}
	if most := e.Config().Settings.Execute.CodeKB * 1000; len(req.Code) > most {
		return bad("the code has "+strconv.Itoa(len(req.Code))+" bytes, and "+strconv.Itoa(most)+" are the most (metamcp.execute.codeKb)",
			"Write shorter code; data belongs into the files and tools of the servers.")
	}
	size := 0
	for _, arg := range req.Args {
		size += len(arg)
	}
	if size > maxScriptArgs {
		return bad(fmt.Sprintf("the arguments of the script have %d bytes, and %d are the most", size, maxScriptArgs), "Give the script a name of the data, and let a tool read it.")
	}
	for _, name := range req.Servers {
		switch entry, ok := e.core.Directory().Lookup(name); {
		case !ok:
			return 0, e.core.ServerNotFound(name)
		case entry.Spec().Disabled:
			return 0, supervision.Disabled(entry.Spec())
		}
	}
	language, err := sandbox.ParseLanguage(req.Language)
	if err != nil {
		return bad(err.Error(), `Use "javascript" or "typescript", or leave it out.`)
	}
	switch language {
	case sandbox.JavaScript:
		return messages.ScriptJavaScript, nil
	case sandbox.TypeScript:
		return messages.ScriptTypeScript, nil
	default:
		return messages.ScriptAuto, nil
	}
}

// runPort collects what a run says, for the goroutine of Run.
type runPort struct {
	wake  chan struct{}            // capacity 1: there is something to see
	clean func(text string) string // takes the secrets out of a line; runs on Run's goroutine

	// calls are those that are done. Nobody is woken for one: who tells of the
	// progress looks now and then.
	calls atomic.Int64

	mu     sync.Mutex
	lines  []ConsoleLine // that Run has not seen; the sandbox bounds their size
	report *messages.RunReport

	// Of Run's goroutine alone.
	kept    []ConsoleLine
	bytes   int
	dropped int
	seen    RunProgress
}

func (p *runPort) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Said implements messages.RunPort.
func (p *runPort) Said(l ConsoleLine) {
	p.mu.Lock()
	p.lines = append(p.lines, l)
	p.mu.Unlock()
	p.poke()
}

// Progressed implements messages.RunPort.
func (p *runPort) Progressed(calls int) { p.calls.Store(int64(calls)) }

// Ended implements messages.RunPort.
func (p *runPort) Ended(r *messages.RunReport) {
	p.mu.Lock()
	p.report = r
	p.mu.Unlock()
	p.poke()
}

// wait returns the run's report, nil where ctx ended first.
func (p *runPort) wait(ctx context.Context, req *RunRequest) *messages.RunReport {
	var pause <-chan time.Time // until the next progress may be told
	told := RunProgress{}
	if req.Progress != nil {
		timer := time.NewTicker(progressEvery)
		defer timer.Stop()
		pause = timer.C
	}
	for {
		select {
		case <-p.wake:
			if report := p.take(req); report != nil {
				return report
			}
		case <-pause:
			if p.seen.Calls = int(p.calls.Load()); p.seen != told {
				told = p.seen
				req.Progress(told)
			}
		case <-ctx.Done():
			if report := p.take(req); report != nil {
				return report
			}
			return nil
		}
	}
}

// take sees what is new.
func (p *runPort) take(req *RunRequest) *messages.RunReport {
	p.mu.Lock()
	lines, report := p.lines, p.report
	p.lines = nil
	p.mu.Unlock()
	for _, l := range lines {
		l.Text = p.clean(l.Text)
		if req.Console != nil {
			req.Console(l)
		}
		if len(p.kept) < maxConsoleLines && p.bytes+len(l.Text) <= maxConsoleBytes {
			p.kept = append(p.kept, l)
			p.bytes += len(l.Text)
		} else {
			p.dropped++
		}
		p.seen.Last = l.Text
	}
	p.seen.Lines += len(lines)
	return report
}
