package worker

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	lib "modernc.org/libquickjs"
	"modernc.org/quickjs"

	"github.com/metamcp/metamcp/integration/sandbox"
)

// flood is why a script ends that wrote too much, and since when it should.
type flood struct {
	failure *sandbox.Failure
	since   time.Time
}

// refusal is what the bridge throws.
type refusal struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// refused is a refusal as text.
func (e *engine) refused(code, message, hint string) lib.TJSValue {
	text, err := json.Marshal(refusal{code, message, hint})
	if err != nil { // it has texts alone
		text = []byte("{}")
	}
	return e.native.string(text)
}

// thrownOn returns the exception that is pending to JavaScript.
func (e *engine) thrownOn() lib.TJSValue {
	n := e.native
	return lib.XJS_Throw(n.tls, n.context, lib.XJS_GetException(n.tls, n.context))
}

// askOf reads the arguments of hostAsk; false: an exception is pending.
func (e *engine) askOf(args []lib.TJSValue) (a *sandbox.Ask, ok bool) {
	a = &sandbox.Ask{}
	var kind, timeout float64
	var text string
	if kind, ok = e.native.number(args[0]); !ok {
		return nil, false
	}
	if a.Server, ok = e.native.text(args[1]); !ok {
		return nil, false
	}
	if a.Tool, ok = e.native.text(args[2]); !ok {
		return nil, false
	}
	if text, ok = e.native.text(args[3]); !ok {
		return nil, false
	}
	if len(args) > 5 {
		if timeout, ok = e.native.number(args[4]); !ok {
			return nil, false
		}
		a.Raw = lib.XJS_ToBool(e.native.tls, e.native.context, args[5]) != 0
	}
	a.Kind, a.Args, a.TimeoutMs = sandbox.AskKind(kind), json.RawMessage(wellFormed(text)), int64(timeout)
	return a, true
}

// hostAsk is called with kind, server, tool, args, timeoutMs and raw, and
// returns a promise, or a refusal as text; the last two may be missing.
func (e *engine) hostAsk(argc int32, argv uintptr) lib.TJSValue {
	a, ok := e.askOf(values(argv, int(argc)))
	if !ok {
		return e.thrownOn()
	}
	if e.asks >= e.limits.Calls {
		return e.refused(codeCallLimit, fmt.Sprintf("this script has made %d calls, which is the limit", e.limits.Calls),
			"do more with each call, or split the work over several scripts")
	}
	if size := int64(len(a.Args)); size > e.limits.OutputBytes || e.queued+size > e.limits.OutputBytes {
		return e.refused(codeCallLimit, fmt.Sprintf("the arguments of calls that wait are over %s", bytesText(e.limits.OutputBytes)),
			"await calls before you make more of them, or send less")
	}
	stack, ok := e.sites.here()
	if !ok {
		return e.thrownOn()
	}
	p := &pending{ask: a, stack: stack}
	promise, id, ok := e.promised(p)
	if !ok {
		e.native.free(stack)
		return e.thrownOn()
	}
	a.ID = id
	e.asks++
	e.queue = append(e.queue, a)
	e.queued += int64(len(a.Args))
	return promise
}

// promised is the promise of p and its number; false: an exception is pending.
func (e *engine) promised(p *pending) (promise lib.TJSValue, id uint64, ok bool) {
	if promise, p.resolve, p.reject, ok = e.native.promise(); !ok {
		return promise, 0, false
	}
	e.nextID++
	e.pending[e.nextID] = p
	return promise, e.nextID, true
}

// hostKeep is called once, with a function of the bridge and the constructor of
// errors.
func (e *engine) hostKeep(argc int32, argv uintptr) lib.TJSValue {
	args := values(argv, int(argc))
	e.lost, e.sites.error = e.native.dup(args[0]), e.native.dup(args[1])
	return lib.XNewInt32(e.native.tls, e.native.context, 0)
}

// hostSleep is called with milliseconds and returns a promise, or a refusal.
func (e *engine) hostSleep(argc int32, argv uintptr) lib.TJSValue {
	if e.sleeps >= e.limits.Timers {
		return e.refused(codeCallLimit, fmt.Sprintf("%d sleeps are under way, which is the limit", e.limits.Timers), "await a sleep before you start more")
	}
	ms, ok := e.native.number(values(argv, int(argc))[0])
	if !ok {
		return e.thrownOn()
	}
	p := &pending{stack: lib.XNewInt32(e.native.tls, e.native.context, 0)} // it cannot fail
	promise, id, ok := e.promised(p)
	if !ok {
		return e.thrownOn()
	}
	e.sleeps++
	d := time.Duration(ms * float64(time.Millisecond))
	p.due, p.timer = time.Now().Add(d), time.AfterFunc(d, func() { e.inbox.put(event{slept: id}) })
	return promise
}

// hostSay is called with a level and a text.
func (e *engine) hostSay(args []any) (any, error) {
	l := &sandbox.Line{Level: stringAt(args, 0), Text: stringAt(args, 1)}
	if e.tried += int64(len(l.Text)) + lineCost; e.tried > e.limits.OutputBytes {
		e.flooded()
		return quickjs.Undefined{}, nil
	}
	if len(l.Text) > maxLine {
		l.Text = strings.ToValidUTF8(l.Text[:maxLine], "") + "…"
	}
	e.say(l)
	return quickjs.Undefined{}, nil
}

// flooded ends a script that does not stop writing to its console.
func (e *engine) flooded() {
	e.dropped++
	if e.flood.Load() == nil {
		f := floodFailure(e.limits.OutputBytes)
		e.outcome = &sandbox.Outcome{Failure: f}
		e.flood.Store(&flood{f, time.Now()})
	}
	// Once more where the script goes on: an interrupt ends one async function,
	// and another may have called it. Where that one never meets an interrupt,
	// the watch ends the process.
	e.vm.Interrupt()
}

func (e *engine) say(l *sandbox.Line) {
	if e.lines >= maxLines || e.said+int64(len(l.Text)) > e.limits.OutputBytes {
		e.dropped++
		return
	}
	e.lines++
	e.said += int64(len(l.Text))
	_ = e.post(&sandbox.Frame{Run: e.run, Line: l}) // where it fails the host is gone, and this process ends
}

func (e *engine) hostSettled([]any) (any, error) {
	e.settled = true
	return quickjs.Undefined{}, nil
}

// hostDone is called with the value as JSON, or "" for undefined.
func (e *engine) hostDone(args []any) (any, error) {
	if e.outcome != nil {
		return quickjs.Undefined{}, nil
	}
	text := wellFormed(stringAt(args, 0))
	if size := e.said + int64(len(text)); size > e.limits.OutputBytes {
		e.outcome = &sandbox.Outcome{Failure: outputFailure(size, e.limits.OutputBytes)}
		return quickjs.Undefined{}, nil
	}
	e.outcome = &sandbox.Outcome{}
	if text != "" {
		e.outcome.Value = json.RawMessage(text)
	}
	return quickjs.Undefined{}, nil
}

// hostFail is called with what the bridge knows of an exception.
func (e *engine) hostFail(args []any) (any, error) {
	if e.outcome == nil {
		e.outcome = &sandbox.Outcome{Failure: e.thrown(stringAt(args, 0), sandbox.FailException)}
	}
	return quickjs.Undefined{}, nil
}

// wellFormed replaces the surrogates without a partner in a JSON text. The
// engine's writer has escaped them, and never writes another escape of that
// kind.
func wellFormed(text string) string {
	const escape = `\ud`
	if !strings.Contains(text, escape) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		switch {
		case text[i] != '\\':
			b.WriteByte(text[i])
			i++
		case strings.HasPrefix(text[i:], escape) && i+len(`\udXXX`) <= len(text):
			b.WriteRune(utf8.RuneError)
			i += len(`\udXXX`)
		default:
			b.WriteString(text[i:min(i+2, len(text))])
			i += 2
		}
	}
	return b.String()
}

func stringAt(args []any, i int) string {
	if i >= len(args) {
		return ""
	}
	s, _ := args[i].(string)
	return s
}
