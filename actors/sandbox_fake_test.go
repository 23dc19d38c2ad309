package actors

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// fakeSandbox starts workers that live in this process. What a script does is
// the Go function that its code names.
type fakeSandbox struct {
	programs map[string]func(s *fakeScript)
	launch   func(start int) error // may be nil
	unready  func(start int) bool  // the worker never says Ready; may be nil
	dies     func(start int) bool  // the worker ends before it is ready; may be nil

	mu      sync.Mutex
	changed chan struct{}
	all     []*fakeWorker
	starts  int
	alive   int
	running int
	busiest int      // scripts at once
	order   []uint64 // in which scripts were given out
	wrong   []string
}

func newFakeSandbox() *fakeSandbox {
	return &fakeSandbox{programs: map[string]func(*fakeScript){}, changed: make(chan struct{})}
}

func (f *fakeSandbox) note(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeSandbox) accuse(format string, args ...any) {
	f.note(func() { f.wrong = append(f.wrong, fmt.Sprintf(format, args...)) })
}

// until waits until it is so.
func (f *fakeSandbox) until(t testing.TB, what string, so func() bool) {
	t.Helper()
	deadline := time.NewTimer(soon)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		f.mu.Lock()
		changed := f.changed
		f.mu.Unlock()
		if so() {
			return
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("it never happened: %s", what)
		}
	}
}

func (f *fakeSandbox) workers() []*fakeWorker {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.all)
}

// scripts is how many run.
func (f *fakeSandbox) scripts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running
}

// started is how many workers were started.
func (f *fakeSandbox) started() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.starts
}

func (f *fakeSandbox) lives() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.alive
}

// check demands that nothing is left.
func (f *fakeSandbox) check(t testing.TB) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.alive != 0 {
		t.Errorf("%d workers are left", f.alive)
	}
	for _, w := range f.wrong {
		t.Error(w)
	}
}

// Launch implements SandboxLauncher.
func (f *fakeSandbox) Launch(ear SandboxEar) (SandboxWorker, error) {
	var n int
	f.note(func() { f.starts++; n = f.starts })
	if f.launch != nil {
		if err := f.launch(n); err != nil {
			return nil, err
		}
	}
	w := &fakeWorker{f: f, n: n, ear: ear, said: make(chan func(), 4096), killed: make(chan struct{})}
	f.note(func() { f.alive++; f.all = append(f.all, w) })
	go w.speak()
	switch {
	case f.dies != nil && f.dies(n):
		w.Kill()
	case f.unready == nil || !f.unready(n):
		w.said <- func() { ear.Ready(messages.Confinement{Seccomp: "fake"}) }
	}
	return w, nil
}

// fakeWorker is one worker.
type fakeWorker struct {
	f    *fakeSandbox
	n    int
	ear  SandboxEar
	said chan func() // in order, to the ear

	mu       sync.Mutex
	script   *fakeScript
	once     sync.Once
	killed   chan struct{}
	programs sync.WaitGroup
}

// speak is the goroutine that the ear hears.
func (w *fakeWorker) speak() {
	for {
		select {
		case say := <-w.said:
			say()
			continue
		default:
		}
		select {
		case say := <-w.said:
			say()
		case <-w.killed:
			w.programs.Wait()
			w.f.note(func() { w.f.alive-- })
			w.ear.Gone(errors.New("killed"))
			return
		}
	}
}

// Run implements SandboxWorker.
func (w *fakeWorker) Run(run uint64, s *messages.Script) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.killed:
		return errors.New("it has ended")
	default:
	}
	if w.script != nil {
		w.f.accuse("worker %d got a second script while it had one", w.n)
		return errors.New("it is busy")
	}
	program := w.f.programs[s.Code]
	if program == nil {
		return fmt.Errorf("no program %q", s.Code)
	}
	w.script = &fakeScript{w: w, run: run, Script: s, replies: map[uint64]chan *messages.ScriptReply{}}
	w.f.note(func() { w.f.running++; w.f.order = append(w.f.order, run); w.f.busiest = max(w.f.busiest, w.f.running) })
	script := w.script
	w.programs.Go(func() { program(script) })
	return nil
}

// Stand implements SandboxWorker; its scripts have no time of their own.
func (w *fakeWorker) Stand(uint64, bool) {}

// Reply implements SandboxWorker.
func (w *fakeWorker) Reply(run uint64, r *messages.ScriptReply) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.script
	if s == nil || s.run != run {
		return
	}
	c := s.replies[r.ID]
	if c == nil {
		w.f.accuse("a reply to ask %d, which is not waiting", r.ID)
		return
	}
	delete(s.replies, r.ID)
	if (r.Value == nil) == (r.Err == nil) {
		w.f.accuse("a reply with value %s and error %v", r.Value, r.Err)
	}
	c <- r
}

// Kill implements SandboxWorker.
func (w *fakeWorker) Kill() {
	w.once.Do(func() {
		w.mu.Lock()
		if w.script != nil {
			w.script = nil
			w.f.note(func() { w.f.running-- })
		}
		w.mu.Unlock()
		close(w.killed)
	})
}

func (w *fakeWorker) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.script != nil
}

// PID implements SandboxWorker.
func (w *fakeWorker) PID() int { return 1000 + w.n }

// fakeScript is a script that runs.
type fakeScript struct {
	*messages.Script
	w    *fakeWorker
	run  uint64
	last atomic.Uint64

	replies map[uint64]chan *messages.ScriptReply // guarded by the worker's mutex
}

// ask asks and does not wait.
func (s *fakeScript) ask(a messages.ScriptAsk) <-chan *messages.ScriptReply {
	a.ID = s.last.Add(1)
	c := make(chan *messages.ScriptReply, 1)
	s.w.mu.Lock()
	s.replies[a.ID] = c
	s.w.mu.Unlock()
	s.w.said <- func() { s.w.ear.Asked(s.run, &a) }
	return c
}

// call calls a tool and waits, nil where the worker is killed meanwhile.
func (s *fakeScript) call(server, tool, args string) *messages.ScriptReply {
	return s.await(s.ask(messages.ScriptAsk{Kind: messages.AskCall, Server: server, Tool: tool, Args: json.RawMessage(args)}))
}

func (s *fakeScript) await(c <-chan *messages.ScriptReply) *messages.ScriptReply {
	select {
	case r := <-c:
		return r
	case <-s.w.killed:
		return nil
	}
}

func (s *fakeScript) log(text string) {
	s.w.said <- func() { s.w.ear.Said(s.run, messages.ConsoleLine{Level: "log", Text: text}) }
}

// finish ends the script.
func (s *fakeScript) finish(o messages.ScriptOutcome) {
	s.w.mu.Lock()
	over := s.w.script != s
	if !over {
		s.w.script = nil
	}
	s.w.mu.Unlock()
	if over {
		return
	}
	s.w.f.note(func() { s.w.f.running-- })
	s.w.said <- func() { s.w.ear.Finished(s.run, &o) }
}

func (s *fakeScript) value(text string) {
	s.finish(messages.ScriptOutcome{Value: json.RawMessage(text)})
}

// answer ends the script with what a call gave.
func (s *fakeScript) answer(r *messages.ScriptReply) {
	switch {
	case r == nil:
	case r.Err != nil:
		s.finish(messages.ScriptOutcome{Failure: &messages.ScriptFailure{Kind: "exception", Message: r.Err.Message, Thrown: r.Err}})
	default:
		s.value(string(r.Value))
	}
}

// hang does nothing until it is killed.
func (s *fakeScript) hang() { <-s.w.killed }
