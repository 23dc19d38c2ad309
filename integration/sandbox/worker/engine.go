package worker

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"modernc.org/quickjs"

	"github.com/metamcp/metamcp/integration/sandbox"
)

//go:embed bridge.js
var bridgeSource string

// bridgeLine is where the bridge's own lines begin, so that its frames can be
// told from the author's in a stack: the engine gives every source one name.
const bridgeLine = 1 << 16

const (
	// maxLines and maxLine bound what a console may say.
	maxLines = 1000
	maxLine  = 64 << 10
	// lineCost is what a line counts for besides its text, so that empty ones
	// come to an end too.
	lineCost = 32
	// bytesPerFrame is what a call takes of Limits.StackBytes: the engine counts
	// calls.
	bytesPerFrame = 100
	leastFrames   = 100
	// mostFrames is far from what would take a gigabyte of the real stack.
	mostFrames = 20000
	// defaultHeap holds while the bridge is evaluated.
	defaultHeap = sandbox.DefaultHeapBytes
)

// engine is one JavaScript engine for one script. Its methods are called from
// one goroutine, but for those of inbox and post.
type engine struct {
	vm     *quickjs.VM
	bridge quickjs.Value
	post   func(*sandbox.Frame) error

	run    uint64
	limits sandbox.Limits
	source *source
	began  time.Time

	peak func() int64 // the largest size of the process that was seen
	base int64        // its size before the script came

	nextID  uint64
	pending map[uint64]*pending // asks at the host or in the queue, and sleeps
	asking  int                 // asks at the host
	queue   []*sandbox.Ask      // asks that wait for a place
	queued  int64               // bytes of their arguments
	asks    int                 // of the whole run
	sleeps  int

	said    int64 // bytes of the console
	tried   int64 // bytes that the script wrote to it, also those that were dropped
	lines   int
	dropped int
	flood   atomic.Pointer[flood] // the script wrote too much to its console

	settled  bool // the script's promise
	outcome  *sandbox.Outcome
	rejects  *rejections
	overtime atomic.Bool // the wall time is used up

	inbox inbox
}

// flood is why a script ends that wrote too much, and since when it should.
type flood struct {
	failure *sandbox.Failure
	since   time.Time
}

// pending is something that will settle a promise.
type pending struct {
	ask   *sandbox.Ask // nil: a sleep
	timer *time.Timer
	due   time.Time // of a sleep
}

// event settles a promise.
type event struct {
	reply *sandbox.Reply
	slept uint64 // the id of a sleep
}

// inbox collects events for the engine's goroutine. It is bounded by what is
// pending, since the host and the timers say everything once.
type inbox struct {
	mu     sync.Mutex
	events []event
	woken  chan struct{}
}

func (b *inbox) put(e event) {
	b.mu.Lock()
	b.events = append(b.events, e)
	b.mu.Unlock()
	b.wake()
}

func (b *inbox) wake() {
	select {
	case b.woken <- struct{}{}:
	default:
	}
}

func (b *inbox) take() []event {
	b.mu.Lock()
	defer b.mu.Unlock()
	events := b.events
	b.events = nil
	return events
}

// newEngine makes an engine that waits for its script. post sends a frame to
// the host.
func newEngine(post func(*sandbox.Frame) error) (*engine, error) {
	vm, err := quickjs.NewVM()
	if err != nil {
		return nil, fmt.Errorf("start the JavaScript engine: %w", err)
	}
	e := &engine{vm: vm, post: post, pending: make(map[uint64]*pending), inbox: inbox{woken: make(chan struct{}, 1)}}
	vm.SetMemoryLimit(defaultHeap)
	vm.SetModuleLoader(func(_ *quickjs.VM, name string) (string, error) {
		return "", fmt.Errorf("import(%q): there are no modules in this sandbox; use servers, discover, sleep and standard ECMAScript", name)
	}, nil)
	hosts := []struct {
		name string
		f    quickjs.HostFunc
	}{
		{"ask", e.hostAsk}, {"sleep", e.hostSleep}, {"say", e.hostSay}, {"settled", e.hostSettled}, {"done", e.hostDone}, {"fail", e.hostFail},
	}
	var names, deletes []string
	for _, h := range hosts {
		name := "__metamcp_" + h.name
		if err := vm.RegisterHostFunc(name, h.f); err != nil {
			return nil, fmt.Errorf("register %s: %w", name, err)
		}
		names = append(names, name)
		deletes = append(deletes, "delete globalThis."+name)
	}
	text := strings.Repeat("\n", bridgeLine) + strings.TrimSpace(bridgeSource) + "(" + strings.Join(names, ",") + ")"
	if e.bridge, err = vm.EvalValue(text, quickjs.EvalGlobal); err != nil {
		return nil, fmt.Errorf("evaluate the bridge: %w", err)
	}
	if _, err := vm.Eval(strings.Join(deletes, ";"), quickjs.EvalGlobal); err != nil {
		return nil, fmt.Errorf("hide the bridge: %w", err)
	}
	e.rejects = watchRejections(vm)
	return e, nil
}

// startConfig is what the bridge must know of a script.
type startConfig struct {
	Servers []sandbox.Server `json:"servers"`
	Results []string         `json:"results"`
	Args    []string         `json:"args"` // null: none
	Limits  bridgeLimits     `json:"limits"`
}

type bridgeLimits struct {
	Budget   int64 `json:"budget"` // characters of the value, or of arguments
	MaxSleep int64 `json:"maxSleep"`
}

// prepare takes a script's limits; execute does the rest.
func (e *engine) prepare(run uint64, s *sandbox.Script) {
	e.run, e.began = run, time.Now()
	e.limits = s.Limits.WithDefaults()
	e.source = newSource(s.Code)
}

// execute runs the script to its outcome.
func (e *engine) execute(s *sandbox.Script) *sandbox.Outcome {
	if f := e.source.check(e.limits.CodeBytes); f != nil {
		return e.finish(f)
	}
	e.vm.SetMemoryLimit(uintptr(e.limits.HeapBytes))
	e.vm.SetMaxStackSize(uintptr(min(max(e.limits.StackBytes/bytesPerFrame, leastFrames), mostFrames)))
	config, err := json.Marshal(startConfig{
		Servers: orEmpty(s.Servers), Results: orEmpty(s.Results), Args: s.Args,
		Limits: bridgeLimits{Budget: e.limits.OutputBytes, MaxSleep: sandbox.MaxSleep.Milliseconds()},
	})
	if err != nil {
		return e.finish(internalFailure(err))
	}
	if err := e.call("configure", string(config)); err != nil {
		return e.finish(e.failureOf(err))
	}
	main, failure := e.compile(s.Language)
	if failure != nil {
		return e.finish(failure)
	}
	// Called from here, the script has no frames of the bridge below its own.
	promise, err := main.CallValue(quickjs.UndefinedValue)
	if err != nil {
		return e.finish(e.notBegun(err))
	}
	err = e.call("end", promise)
	promise.Free()
	if err != nil {
		return e.finish(e.failureOf(err))
	}
	return e.finish(e.loop())
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// call calls the bridge.
func (e *engine) call(args ...any) error {
	_, err := e.bridge.Call(quickjs.UndefinedValue, args...)
	return err
}

// loop runs the script's jobs until there is an outcome, or returns why there
// will be none.
func (e *engine) loop() *sandbox.Failure {
	for {
		if f := e.jobs(); f != nil || e.outcome != nil {
			return f
		}
		if e.settled {
			return memoryFailure("there was too little memory left to write the value down")
		}
		if err := e.flush(); err != nil {
			return internalFailure(err)
		}
		if len(e.pending) == 0 {
			return e.stuck()
		}
		<-e.inbox.woken
		if e.overtime.Load() {
			return e.timeout(nil)
		}
		for _, ev := range e.inOrder(e.inbox.take()) {
			if f := e.settle(ev); f != nil {
				return f
			}
			// A promise's reactions run before the next one settles, as they
			// would where the answers had come one by one.
			if f := e.jobs(); f != nil || e.outcome != nil {
				return f
			}
		}
	}
}

// inOrder puts the end of each sleep behind the ends of those that are over
// before it: timers that are late together go off in any order.
func (e *engine) inOrder(events []event) []event {
	var out []event
	told := make(map[uint64]bool)
	for _, ev := range events {
		last := e.pending[ev.slept]
		switch {
		case ev.reply != nil:
			out = append(out, ev)
			continue
		case last == nil || told[ev.slept]:
			continue
		}
		var over []uint64
		for id, p := range e.pending {
			if p.timer != nil && !told[id] && !p.due.After(last.due) {
				over = append(over, id)
				told[id] = true
			}
		}
		slices.SortFunc(over, func(a, b uint64) int {
			return cmp.Or(e.pending[a].due.Compare(e.pending[b].due), cmp.Compare(a, b))
		})
		for _, id := range over {
			out = append(out, event{slept: id})
		}
	}
	return out
}

// jobs runs promise reactions until there are none.
func (e *engine) jobs() *sandbox.Failure {
	for e.outcome == nil {
		n, err := e.vm.ExecutePendingJobs()
		if e.overtime.Load() {
			return e.timeout(err)
		}
		var thrown *quickjs.Error
		if errors.As(err, &thrown) && (thrown.Name == "InternalError") {
			return e.failureOf(err)
		}
		if err == nil || n == 0 {
			return nil
		}
	}
	return nil
}

func (e *engine) settle(ev event) *sandbox.Failure {
	var err error
	switch {
	case ev.reply != nil:
		p := e.pending[ev.reply.ID]
		if p == nil || p.ask == nil {
			return nil
		}
		delete(e.pending, ev.reply.ID)
		e.asking--
		switch {
		case ev.reply.Err != nil:
			text, merr := json.Marshal(ev.reply.Err)
			if merr != nil {
				return internalFailure(merr)
			}
			err = e.call("settle", float64(ev.reply.ID), false, string(text))
		default:
			err = e.call("settle", float64(ev.reply.ID), true, string(ev.reply.Value))
		}
		if ferr := e.flush(); ferr != nil {
			return internalFailure(ferr)
		}
	default:
		if e.pending[ev.slept] == nil {
			return nil
		}
		delete(e.pending, ev.slept)
		e.sleeps--
		err = e.call("settle", float64(ev.slept), true, "")
	}
	if e.overtime.Load() {
		return e.timeout(err)
	}
	if err != nil {
		return e.failureOf(err)
	}
	return nil
}

// flush sends asks while there are places.
func (e *engine) flush() error {
	for len(e.queue) > 0 && e.asking < e.limits.Concurrent {
		a := e.queue[0]
		e.queue = e.queue[1:]
		e.queued -= int64(len(a.Args))
		e.asking++
		if err := e.post(&sandbox.Frame{Run: e.run, Ask: a}); err != nil {
			return err
		}
	}
	return nil
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
// returns an id, or a refusal as text.
func (e *engine) hostAsk(args []any) (any, error) {
	kind, server, tool, text := stringAt(args, 0), stringAt(args, 1), stringAt(args, 2), wellFormed(stringAt(args, 3))
	a := &sandbox.Ask{Server: server, Tool: tool, Args: json.RawMessage(text), TimeoutMs: int64(numberAt(args, 4))}
	if err := a.Kind.UnmarshalText([]byte(kind)); err != nil {
		return nil, err
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

// finish completes the outcome.
func (e *engine) finish(f *sandbox.Failure) *sandbox.Outcome {
	o := e.outcome
	if o == nil || f != nil && e.flood.Load() == nil { // what ends a flood of lines looks like a timeout
		o = &sandbox.Outcome{Failure: f}
	}
	for _, p := range e.pending {
		if p.timer != nil {
			p.timer.Stop()
			o.Sleeping++
		} else {
			o.Cancelled++
		}
	}
	if o.Failure == nil {
		e.warnOfRejections()
	}
	o.Dropped = e.dropped
	o.Usage.Calls = e.asks - len(e.queue)
	return o
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
