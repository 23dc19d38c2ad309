package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"modernc.org/quickjs"

	"github.com/metamcp/metamcp/integration/lazyregexp"
	"github.com/metamcp/metamcp/integration/sandbox"
)

// Codes of errors that the bridge makes, which decide what failure an uncaught
// one is.
const (
	codeCallLimit   = "CALL_LIMIT"
	codeOutputLimit = "OUTPUT_LIMIT"
	codeNotJSON     = "NOT_JSON"
	codeUnsupported = "UNSUPPORTED"
)

// cannotBeShown is what the bridge makes of a value that it has no memory to write.
const cannotBeShown = "[cannot be shown]"

// described is what the bridge knows of an exception.
type described struct {
	Name, Message, Text, Stack, Code, Hint, Cause, Call, Many string
}

// thrown makes a failure of an exception that nobody caught.
func (e *engine) thrown(text string, kind sandbox.FailureKind) *sandbox.Failure {
	var d described
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return internalFailure(err)
	}
	at, stack := e.source.frames(d.Stack)
	if d.Name == "InternalError" {
		if f := e.engineLimit(d.Message); f != nil {
			e.locate(f, at, stack)
			return f
		}
	}
	f := &sandbox.Failure{Kind: kind, Message: d.Text, Hint: d.Hint}
	switch {
	case d.Text == "" && d.Message == "":
		f.Message = "the script threw an error without a message"
	case d.Name == "":
		f.Message = "the script threw " + d.Message + ", which is no Error"
		f.Hint = "write throw new Error(\"…\"), which tells the line"
		if (d.Message == "null" || d.Message == cannotBeShown) && e.nearlyFull() {
			// Where there is no memory left for an error the engine throws null.
			f = memoryFailure(e.heapText())
		}
	case d.Call != "":
		f.Message = d.Message
		if err := json.Unmarshal([]byte(d.Call), &f.Thrown); err != nil {
			return internalFailure(err)
		}
	default:
		e.explain(f, &d)
		e.mistaken(f, &d)
	}
	if d.Cause != "" {
		f.Message += "; caused by: " + d.Cause
	}
	if d.Many != "" {
		f.Message += ": " + d.Many
	}
	if f.Kind == sandbox.FailSyntax && at.line == 0 {
		at = e.source.end()
	}
	e.locate(f, at, stack)
	return f
}

var (
	notDefined = lazyregexp.New(`^'?([\w$]+)'? is not defined$`)
	noModule   = lazyregexp.New(`^module load failed: `)
)

// elsewhere are names that scripts of other places use, and what there is
// instead.
var elsewhere = map[string]string{
	"process": "there is no process here; what a tool needs is given in its arguments",
	"Buffer":  "use Uint8Array, or strings as they are", "module": "return the value instead", "exports": "return the value instead",
	"__dirname": "there are no files here; use the tools of a server", "__filename": "there are no files here; use the tools of a server",
	"window": "use globalThis", "document": "there is no page here; use the tools of a server", "global": "use globalThis", "self": "use globalThis",
	"Deno": "use the tools of a server", "Bun": "use the tools of a server", "performance": "use Date.now()", "crypto": "use Math.random(), or the tools of a server",
	"URL": "take the text apart with a regular expression", "URLSearchParams": "use encodeURIComponent", "TextEncoder": "strings can be passed as they are",
	"TextDecoder": "strings can be passed as they are", "btoa": "strings can be passed as they are", "atob": "strings can be passed as they are",
	"Intl": "format with toFixed, padStart and the methods of Date", "WebAssembly": "write it in JavaScript", "Atomics": "a script has one thread",
	"SharedArrayBuffer": "use ArrayBuffer: a script has one thread", "AbortController": "give a call {timeoutMs: …}", "Worker": "a script has one thread; Promise.all runs calls side by side",
	"mcp_call": "use servers.<name>.<tool>(args)", "mcp_discover": "use discover(query)", "mcp_execute": "the script runs already",
	"mcp": "use servers.<name>.<tool>(args)", "tools": "use servers.<name>.<tool>(args)", "callTool": "use servers.<name>.call(tool, args)",
}

// explain tells what an error of the language, or of the bridge, means here.
func (e *engine) explain(f *sandbox.Failure, d *described) {
	switch d.Code {
	case codeCallLimit:
		f.Kind, f.Message = sandbox.FailCalls, d.Message
	case codeOutputLimit, codeNotJSON:
		f.Kind, f.Message = sandbox.FailOutput, d.Message
	case codeUnsupported:
		f.Kind, f.Message = sandbox.FailUnsupported, d.Message
	}
	if m := notDefined().FindStringSubmatch(d.Message); m != nil && d.Name == "ReferenceError" {
		if slices.Contains(e.servers, m[1]) {
			f.Hint = "a server is reached by servers: write servers." + m[1]
		} else if hint, ok := elsewhere[m[1]]; ok {
			f.Kind, f.Message, f.Hint = sandbox.FailUnsupported, m[1]+" is not available in this sandbox", hint
		}
	}
	if noModule().MatchString(d.Message) {
		f.Kind, f.Message = sandbox.FailUnsupported, strings.TrimPrefix(d.Message, "module load failed: ")
		f.Hint = "leave the import out: servers, discover, sleep, console and standard ECMAScript are there already"
	}
}

// mistaken adds what a script most likely got wrong to an error that names nothing of
// it: it took a promise for its value, or came with the fence of a text around it, which
// JavaScript reads as templates.
func (e *engine) mistaken(f *sandbox.Failure, d *described) {
	if d.Name != "TypeError" || f.Hint != "" {
		return
	}
	if strings.HasPrefix(strings.TrimSpace(e.source.code), fence) {
		f.Hint = fenceHint
	} else if what := e.awaited(); what != "" {
		f.Hint = "perhaps an await is missing: " + what + " had no answer yet, and a call gives a promise, whose value comes with await"
	}
}

func (e *engine) locate(f *sandbox.Failure, at position, stack string) {
	f.Line, f.Column, f.Excerpt, f.Stack = at.line, at.column, e.source.excerpt(at), stack
}

// engineLimit knows the engine's own errors.
func (e *engine) engineLimit(message string) *sandbox.Failure {
	switch {
	case strings.Contains(message, "stack overflow"):
		return &sandbox.Failure{
			Kind: sandbox.FailStack, Message: "the script's calls are nested too deeply (stack overflow)",
			Hint: "look for a recursion without an end, or use a loop with a list of what is left to do",
		}
	case strings.Contains(message, "out of memory"), strings.Contains(message, "too long"):
		return memoryFailure(e.heapText())
	case strings.Contains(message, "interrupted"):
		return timeoutFailure(e.limits)
	}
	return nil
}

// nearlyFull tells whether the heap may be what is full.
func (e *engine) nearlyFull() bool { return e.peak()-e.base > e.limits.HeapBytes/2 }

func (e *engine) heapText() string {
	return fmt.Sprintf("the script's data is over the limit of %s (out of memory)", bytesText(e.limits.HeapBytes))
}

// failureOf is for errors that came out of the engine and not to the bridge.
func (e *engine) failureOf(err error) *sandbox.Failure {
	if e.overtime.Load() {
		return e.timeout(err)
	}
	var thrown *quickjs.Error
	if !errors.As(err, &thrown) {
		return internalFailure(err)
	}
	at, stack := e.source.frames(thrown.Stack)
	f := e.engineLimit(thrown.Error())
	if f == nil {
		f = &sandbox.Failure{Kind: sandbox.FailException, Message: thrown.Error()}
		if thrown.Error() == "null" {
			f = memoryFailure(e.heapText())
		}
	}
	e.locate(f, at, stack)
	return f
}

// notBegun is for an error of the call that begins the script. Where that is
// no function, its code has closed the brace around it.
func (e *engine) notBegun(err error) *sandbox.Failure {
	var thrown *quickjs.Error
	if !errors.As(err, &thrown) && !e.overtime.Load() {
		return e.source.braceFailure(e.source.end())
	}
	return e.failureOf(err)
}

// timeout says that the wall time is used up, and on what. err is what the
// interrupted code threw, if there was any.
func (e *engine) timeout(err error) *sandbox.Failure {
	f := timeoutFailure(e.limits)
	var thrown *quickjs.Error
	if errors.As(err, &thrown) {
		at, stack := e.source.frames(thrown.Stack)
		e.locate(f, at, stack)
	}
	if f.Line == 0 {
		// An async function that is interrupted rejects its promise, with the
		// place; the bridge hears of that in a job. The next interrupt ends what
		// else may run here.
		if e.outcome == nil {
			_, _ = e.vm.ExecutePendingJobs()
		}
		if o := e.outcome; o != nil && o.Failure != nil && o.Failure.Kind == sandbox.FailTimeout {
			e.locate(f, position{o.Failure.Line, o.Failure.Column}, o.Failure.Stack)
		}
	}
	if f.Line != 0 {
		f.Message += fmt.Sprintf(", while it was at about line %d, or in a loop right after it", f.Line)
		return f
	}
	if what := e.awaited(); what == "" {
		// The engine keeps places of what can fail alone: nothing like that came
		// before the loop, or is in it.
		if at := e.source.firstLoop(); at.line != 0 {
			e.locate(f, at, "")
			f.Message += fmt.Sprintf(", probably in the loop in line %d", at.line)
		}
	} else {
		f.Message += ", while it waited for " + what
		f.Hint = "give slow calls a {timeoutMs: …} of their own, run calls side by side with Promise.all, or split the work over several scripts"
	}
	return f
}

func timeoutFailure(l sandbox.Limits) *sandbox.Failure {
	return &sandbox.Failure{
		Kind: sandbox.FailTimeout, Message: fmt.Sprintf("the script did not end within %s", l.Asked),
		Hint: "look for a loop without an end, or split the work over several scripts",
	}
}

// awaited names what is pending.
func (e *engine) awaited() string {
	var names []string
	sleeps := 0
	for _, p := range e.pending {
		switch {
		case p.ask == nil:
			sleeps++
		case p.ask.Kind == sandbox.AskCall:
			names = append(names, p.ask.Server+"."+p.ask.Tool)
		default:
			names = append(names, p.ask.Kind.String())
		}
	}
	slices.Sort(names)
	if sleeps > 0 {
		names = append(names, fmt.Sprintf("%d sleep(s)", sleeps))
	}
	const most = 5
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("%d more", len(names)-most))
	}
	return strings.Join(names, ", ")
}

// stuck is what a script is when nothing can happen any more.
func (e *engine) stuck() *sandbox.Failure {
	if d := e.rejects.first(e); d != "" {
		f := e.thrown(d, sandbox.FailRejection)
		f.Message = "a promise that nobody awaited was rejected, and nothing is left that could end the script: " + f.Message
		return f
	}
	return &sandbox.Failure{
		Kind:    sandbox.FailDeadlock,
		Message: "the script awaits a promise that nothing can settle any more: no call and no sleep is under way",
		Hint:    "look for a new Promise whose resolve is never called, or for promises that wait for each other",
	}
}

// warnOfRejections tells of promises that were rejected without anybody
// noticing: the value counts, but something went wrong.
func (e *engine) warnOfRejections() {
	d := e.rejects.first(e)
	if d == "" {
		return
	}
	f := e.thrown(d, sandbox.FailRejection)
	text := "a promise was rejected and nobody awaited it: " + f.Message
	if f.Line > 0 {
		text += fmt.Sprintf(" (line %d)", f.Line)
	}
	switch n := e.rejects.count(); {
	case n >= maxRejections:
		text += fmt.Sprintf("; and %d more at least", n-1)
	case n > 1:
		text += fmt.Sprintf("; and %d more", n-1)
	}
	e.say(&sandbox.Line{Level: "warn", Text: text})
}

func memoryFailure(message string) *sandbox.Failure {
	return &sandbox.Failure{Kind: sandbox.FailMemory, Message: message, Hint: "keep less at once: work through the data in parts, and keep only what is needed of each answer"}
}

func outputFailure(size, limit int64) *sandbox.Failure {
	return &sandbox.Failure{
		Kind: sandbox.FailOutput, Message: fmt.Sprintf("the value and the console together are %s; the limit is %s", bytesText(size), bytesText(limit)),
		Hint: "return less: filter, slice or count in the script",
	}
}

func floodFailure(limit int64) *sandbox.Failure {
	return &sandbox.Failure{
		Kind: sandbox.FailOutput, Message: fmt.Sprintf("the script wrote more than %s to its console, which is the limit", bytesText(limit)),
		Hint: fmt.Sprintf("look for a loop without an end, or log less: the first %d lines are kept, and each counts %d bytes besides its text", maxLines, lineCost),
	}
}

func internalFailure(err error) *sandbox.Failure {
	return &sandbox.Failure{Kind: sandbox.FailCrashed, Message: "the sandbox failed: " + err.Error(), Hint: "this is a bug of metamcp; try again, or write the script differently"}
}

// bytesText is a size in the unit that it was set in: memory in MiB, code and
// output in KB and MB, which are thousands.
func bytesText(n int64) string {
	const kb, mb, mib = 1000, 1_000_000, 1 << 20
	switch {
	case n >= mib && n%mib == 0:
		return fmt.Sprintf("%d MiB", n/mib)
	case n >= mb && n%mb == 0, n >= 10*mb:
		return fmt.Sprintf("%d MB", n/mb)
	case n >= kb && n%kb == 0, n >= 1000*kb:
		return fmt.Sprintf("%d KB", n/kb)
	}
	return fmt.Sprintf("%d bytes", n)
}
