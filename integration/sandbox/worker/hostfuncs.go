package worker

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

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

func refuse(code, message, hint string) (any, error) {
	text, err := json.Marshal(refusal{code, message, hint})
	return string(text), err
}

// hostAsk is called with kind, server, tool, args, timeoutMs and raw, and
// returns an id, or a refusal as text; the last two may be missing.
func (e *engine) hostAsk(args []any) (any, error) {
	text := wellFormed(stringAt(args, 3))
	a := &sandbox.Ask{
		Kind: sandbox.AskKind(numberAt(args, 0)), Server: stringAt(args, 1), Tool: stringAt(args, 2), Args: json.RawMessage(text),
		TimeoutMs: int64(numberAt(args, 4)),
	}
	if len(args) > 5 {
		a.Raw, _ = args[5].(bool)
	}
	if e.asks >= e.limits.Calls {
		return refuse(codeCallLimit, fmt.Sprintf("this script has made %d calls, which is the limit", e.limits.Calls),
			"do more with each call, or split the work over several scripts")
	}
	if size := int64(len(text)); size > e.limits.OutputBytes || e.queued+size > e.limits.OutputBytes {
		return refuse(codeCallLimit, fmt.Sprintf("the arguments of calls that wait are over %s", bytesText(e.limits.OutputBytes)),
			"await calls before you make more of them, or send less")
	}
	e.nextID++
	a.ID = e.nextID
	e.asks++
	e.pending[a.ID] = &pending{ask: a}
	e.queue = append(e.queue, a)
	e.queued += int64(len(text))
	return float64(a.ID), nil
}

// hostSleep is called with milliseconds and returns an id, or a refusal.
func (e *engine) hostSleep(args []any) (any, error) {
	if e.sleeps >= e.limits.Timers {
		return refuse(codeCallLimit, fmt.Sprintf("%d sleeps are under way, which is the limit", e.limits.Timers), "await a sleep before you start more")
	}
	e.sleeps++
	e.nextID++
	id := e.nextID
	d := time.Duration(numberAt(args, 0) * float64(time.Millisecond))
	e.pending[id] = &pending{due: time.Now().Add(d), timer: time.AfterFunc(d, func() { e.inbox.put(event{slept: id}) })}
	return float64(id), nil
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

func numberAt(args []any, i int) float64 {
	if i >= len(args) {
		return 0
	}
	switch n := args[i].(type) {
	case int:
		return float64(n)
	case int32:
		return float64(n)
	case int64:
		return float64(n)
	case float64:
		return n
	}
	return 0
}
