package worker

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/integration/openfds"
	"github.com/metamcp/metamcp/integration/sandbox"
)

// Exit statuses of the process.
const (
	exitDone   = iota // a run has ended, or there was none
	exitBroken        // the host or the engine does not do what it must
	exitKilled        // a run broke a bound and was ended from outside of it
)

// maxGoStack bounds the stack of the goroutine that the engine runs on. It is
// there for native recursions that the engine would not count.
const maxGoStack = 512 << 20

// maxProcs is how many processors a worker uses for a script that computes: one
// for it, one for what watches it and collects its garbage. One that waits for
// its calls has fewProcs: with more, Go's scheduler would wake another thread
// at each answer, which finds nothing to do and costs more than the answer.
const (
	maxProcs = 2
	fewProcs = 1
)

// Main serves one run of a host over in and out and returns the exit status of
// the process, which it confines for good: it is for a process of its own. It
// ends early, by os.Exit, when in ends or when a run breaks a bound.
func Main(in, out *os.File, stderr io.Writer) int {
	debug.SetMaxStack(maxGoStack)
	// A value of our own keeps the runtime from reading the limits of its cgroup
	// once a second, which it cannot do here, and breaks over.
	runtime.GOMAXPROCS(min(runtime.NumCPU(), maxProcs))
	openfds.CloseFrom(3)
	in, out = pollable(in), pollable(out)
	p := &process{out: fastWriter(out)}
	goFirst()
	meter := newMeter() // opens what it reads before nothing can be opened any more
	e, err := newEngine(p.post)
	if err != nil {
		fmt.Fprintln(stderr, "metamcp sandbox:", err)
		return exitBroken
	}
	status := confine()
	if err := p.post(&sandbox.Frame{Ready: &status}); err != nil {
		return exitBroken
	}
	var begun atomic.Bool
	warm := time.AfterFunc(warmAfter, func() {
		warmUp()
		if !begun.Load() {
			runtime.GOMAXPROCS(fewProcs)
		}
	})
	r := bufio.NewReaderSize(fastReader(in), 64<<10)
	f, err := sandbox.ReadFrame(r, func() int64 { return sandbox.MaxFrame })
	if errors.Is(err, io.EOF) {
		return exitDone
	}
	if err != nil || f.Script == nil || f.Run == 0 {
		fmt.Fprintln(stderr, "metamcp sandbox: the host sent no script:", err)
		return exitBroken
	}
	e.prepare(f.Run, f.Script)
	begun.Store(true)
	if warm.Stop() {
		runtime.GOMAXPROCS(fewProcs)
	}
	go listen(r, e, stderr)
	w := newWatch(e, meter, p)
	limitData(meter, e.limits)
	go w.run()
	wakeMonitor()
	o := e.execute(f.Script)
	o.PeakBytes = w.look()
	if err := p.finish(e.run, o); err != nil {
		return exitBroken
	}
	return exitDone
}

// listen takes the host's replies. When the host is gone, so is this process,
// whatever the script does.
func listen(r io.Reader, e *engine, stderr io.Writer) {
	for {
		f, err := sandbox.ReadFrame(r, func() int64 { return sandbox.MaxFrame })
		if errors.Is(err, io.EOF) {
			os.Exit(exitDone)
		}
		if err != nil {
			fmt.Fprintln(stderr, "metamcp sandbox:", err)
			os.Exit(exitBroken)
		}
		if f.Run != e.run {
			continue
		}
		if f.Reply != nil {
			e.inbox.put(event{reply: f.Reply})
		}
		if f.Stand != nil {
			e.still.Store(f.Stand.Still)
		}
	}
}

// process writes to the host. An outcome is the last that it writes.
type process struct {
	out io.Writer

	mu   sync.Mutex
	done bool
}

func (p *process) post(f *sandbox.Frame) error {
	data, err := sandbox.EncodeFrame(f)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return nil
	}
	_, err = p.out.Write(data)
	return err
}

// finish writes the outcome, unless one was written.
func (p *process) finish(run uint64, o *sandbox.Outcome) error {
	data, err := sandbox.EncodeFrame(&sandbox.Frame{Run: run, Outcome: o})
	if err != nil {
		o = &sandbox.Outcome{Failure: internalFailure(err), PeakBytes: o.PeakBytes}
		if data, err = sandbox.EncodeFrame(&sandbox.Frame{Run: run, Outcome: o}); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return nil
	}
	p.done = true
	_, err = p.out.Write(data)
	return err
}

const (
	// lookEvery is how often a run is looked at: a process grows by some
	// megabytes in that time.
	lookEvery = 5 * time.Millisecond
	// longLooks is how many looks find the engine in the same turn before it
	// counts as computing: on a busy machine, it may just have to wait.
	longLooks = 3
	// interruptEvery is how long interrupted code may look for its end.
	interruptEvery = 50 * time.Millisecond
	// grace is how long an interrupted engine may go on: longer and it is in
	// native code that does not look.
	grace = 250 * time.Millisecond
	// latestGrace is the same on a machine that leaves the process no time.
	latestGrace = 8 * grace
)

// watch looks at a run from outside of the engine.
type watch struct {
	e     *engine
	meter *meter
	p     *process
	most  int64 // bytes that the process may take

	turn  uint64 // of the engine, when it was last looked at
	looks int    // at this turn, in which the engine computes

	mu   sync.Mutex
	peak int64
}

func newWatch(e *engine, m *meter, p *process) *watch {
	w := &watch{e: e, meter: m, p: p}
	w.peak = m.resident()
	w.most = w.peak + roomFor(e.limits)
	e.base, e.peak = w.peak, w.look
	return w
}

// roomFor is what a process may take besides what it has when it is ready: the
// heap, which doubles for a moment when something large in it grows, and the
// copies of what comes in and goes out.
func roomFor(l sandbox.Limits) int64 {
	return raceFactor * (2*l.HeapBytes + 3*l.OutputBytes + 96<<20)
}

func (w *watch) run() {
	var again time.Time
	var used time.Duration // of the processors when the time was over
	var stood stopped
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for range tick.C {
		if size := w.look(); size > w.most {
			w.end(memoryFailure(fmt.Sprintf("the sandbox process grew to %s, over its limit of %s", bytesText(size), bytesText(w.most))))
		}
		w.widen()
		if f := w.e.flood.Load(); f != nil && time.Since(f.since) > grace*raceFactor {
			w.end(f.failure)
		}
		over := time.Since(w.e.began) - stood.look(w.e) - w.e.limits.Wall
		if over < 0 {
			continue
		}
		// Not at every look: an engine that was interrupted finds out where.
		first := !w.e.overtime.Swap(true)
		if first {
			used = cpuTime()
		}
		if first || time.Since(again) > interruptEvery {
			again = time.Now()
			w.e.vm.Interrupt()
		}
		w.e.inbox.wake()
		if over > grace*raceFactor && cpuTime()-used > grace*raceFactor/2 || over > latestGrace*raceFactor {
			f := timeoutFailure(w.e.limits)
			f.Message += " and could not be interrupted"
			f.Hint = "one step of it takes very long: look for huge arrays, deep nesting, or much to parse at once"
			w.end(f)
		}
	}
}

// widen gives the script all the processors that it may have, for good, once it
// has computed without a break for some looks.
func (w *watch) widen() {
	if turn := w.e.turn.Load(); turn != w.turn || !computes(turn) {
		w.turn, w.looks = turn, 0
		return
	}
	if w.looks++; w.looks == longLooks {
		runtime.GOMAXPROCS(min(runtime.NumCPU(), maxProcs))
	}
}

// stopped is for how long the time of a script stood still.
type stopped struct {
	total time.Duration
	last  time.Time // when this was looked at
}

// look adds the time since the last look where it does not count, and returns all.
func (s *stopped) look(e *engine) time.Duration {
	now := time.Now()
	if e.still.Load() && !computes(e.turn.Load()) && !s.last.IsZero() {
		s.total = min(s.total+now.Sub(s.last), sandbox.MaxStood)
	}
	s.last = now
	return s.total
}

// look returns the largest size that was seen.
func (w *watch) look() int64 {
	size := w.meter.resident()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.peak = max(w.peak, size)
	return w.peak
}

// end ends the process: the engine cannot be asked any more.
func (w *watch) end(f *sandbox.Failure) {
	_ = w.p.finish(w.e.run, &sandbox.Outcome{Failure: f, PeakBytes: w.look()})
	os.Exit(exitKilled)
}
