package worker

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lib "modernc.org/libquickjs"
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
	native *native
	sites  sites
	lost   lib.TJSValue // of the bridge: rejects the promise of a call
	bridge quickjs.Value
	post   func(*sandbox.Frame) error

	run     uint64
	limits  sandbox.Limits
	source  *source
	servers []string // names, for hints
	began   time.Time

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
	still    atomic.Bool // the time in which it waits does not count

	inbox inbox
	// turn counts the waits for the inbox: one more when one begins, and one
	// more when it ends.
	turn atomic.Uint64
}

// computes tells of a turn whether the engine does not wait in it.
func computes(turn uint64) bool { return turn%2 == 0 }

// pending is something that will settle a promise.
type pending struct {
	resolve, reject lib.TJSValue
	stack           lib.TJSValue // of the script where it asked, as a string

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
	if e.native, err = newNative(vm); err != nil {
		return nil, err
	}
	e.sites = sites{n: e.native, stacks: make(map[site]lib.TJSValue)}
	vm.SetMemoryLimit(defaultHeap)
	vm.SetModuleLoader(func(_ *quickjs.VM, name string) (string, error) {
		return "", fmt.Errorf("import(%q): there are no modules in this sandbox; use servers, discover, sleep and standard ECMAScript", name)
	}, nil)
	names, err := e.defineHosts()
	if err != nil {
		return nil, err
	}
	text := strings.Repeat("\n", bridgeLine) + strings.TrimSpace(bridgeSource) + "(" + strings.Join(names, ",") + ")"
	if e.bridge, err = vm.EvalValue(text, quickjs.EvalGlobal); err != nil {
		return nil, fmt.Errorf("evaluate the bridge: %w", err)
	}
	if _, err := vm.Eval("delete globalThis."+strings.Join(names, ";delete globalThis."), quickjs.EvalGlobal); err != nil {
		return nil, fmt.Errorf("hide the bridge: %w", err)
	}
	e.rejects = watchRejections(vm, e.native)
	return e, nil
}

// defineHosts makes what the bridge calls global functions, and returns their
// names in the order in which it takes them.
func (e *engine) defineHosts() ([]string, error) {
	const prefix = "__metamcp_"
	var names []string
	for _, h := range []struct {
		name string
		f    nativeFunc
	}{{"ask", e.hostAsk}, {"sleep", e.hostSleep}, {"keep", e.hostKeep}} {
		if err := e.native.define(prefix+h.name, h.f); err != nil {
			return nil, fmt.Errorf("register %s: %w", h.name, err)
		}
		names = append(names, prefix+h.name)
	}
	for _, h := range []struct {
		name string
		f    quickjs.HostFunc
	}{{"say", e.hostSay}, {"settled", e.hostSettled}, {"done", e.hostDone}, {"fail", e.hostFail}} {
		if err := e.vm.RegisterHostFunc(prefix+h.name, h.f); err != nil {
			return nil, fmt.Errorf("register %s: %w", h.name, err)
		}
		names = append(names, prefix+h.name)
	}
	return names, nil
}

// startConfig is what the bridge must know of a script. The engine makes values of all
// of it before each script, whatever that uses.
type startConfig struct {
	Names   []string      `json:"names"` // of the servers
	Tools   []serverTools `json:"tools"`
	Results []string      `json:"results"`
	Args    []string      `json:"args"` // null: none
	Limits  bridgeLimits  `json:"limits"`
}

// serverTools are the known tools of a server that has some.
type serverTools struct {
	Of    int      `json:"of"` // in Names
	Names []string `json:"names"`
}

// listedServer is a server in servers.list().
type listedServer struct {
	sandbox.Server
	Tools []string `json:"tools"` // never null
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
	for i := range s.Servers {
		e.servers = append(e.servers, s.Servers[i].Name)
	}
}

// execute runs the script to its outcome.
func (e *engine) execute(s *sandbox.Script) *sandbox.Outcome {
	if f := e.source.check(e.limits.CodeBytes); f != nil {
		return e.finish(f)
	}
	e.vm.SetMemoryLimit(uintptr(e.limits.HeapBytes))
	e.vm.SetMaxStackSize(uintptr(min(max(e.limits.StackBytes/bytesPerFrame, leastFrames), mostFrames)))
	config, list, err := startTexts(s)
	if err != nil {
		return e.finish(internalFailure(err))
	}
	if err := e.call("configure", config, list); err != nil {
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

// startTexts are what the bridge is configured with: a startConfig, and what
// servers.list() returns.
func startTexts(s *sandbox.Script) (config, list string, err error) {
	start := startConfig{
		Names: make([]string, len(s.Servers)), Tools: []serverTools{}, Results: orEmpty(s.Results), Args: s.Args,
		Limits: bridgeLimits{Budget: s.Limits.WithDefaults().OutputBytes, MaxSleep: sandbox.MaxSleep.Milliseconds()},
	}
	servers := make([]listedServer, len(s.Servers))
	for i := range s.Servers {
		start.Names[i] = s.Servers[i].Name
		servers[i] = listedServer{Server: s.Servers[i], Tools: orEmpty(s.Servers[i].Tools)}
		if len(servers[i].Tools) > 0 {
			start.Tools = append(start.Tools, serverTools{Of: i, Names: servers[i].Tools})
		}
	}
	first, err := json.Marshal(start)
	if err != nil {
		return "", "", err
	}
	second, err := json.Marshal(servers)
	return string(first), string(second), err
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
		e.turn.Add(1)
		<-e.inbox.woken
		e.turn.Add(1)
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
	return o
}
