package sandbox

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// ErrBusy is returned by [Worker.Run] while another run is under way.
var ErrBusy = errors.New("sandbox: this worker has a run under way")

// ErrGone is returned by [Worker.Run] of a worker that was killed or has ended.
var ErrGone = errors.New("sandbox: this worker has ended")

const (
	// idleFrame bounds what a worker may say outside of a run.
	idleFrame = 64 << 10
	// besides is room for what stands in a frame around the value.
	besides = MaxFrame - MaxOutputBytes
	// keptStderr is how much of stderr is kept for the error of Gone.
	keptStderr = 4 << 10
)

// Worker is one process. Its methods may be called from any goroutine, those of
// an [Ear] included, and never block.
type Worker struct {
	log    *slog.Logger
	ear    Ear
	proc   *os.Process
	stdin  *os.File
	stdout *os.File
	stderr *os.File

	limit atomic.Int64 // of a frame

	mu     sync.Mutex
	run    uint64 // under way; 0: none
	limits Limits
	asked  map[uint64]bool // asks of the run without a reply
	last   uint64          // the highest id of an ask
	asks   int
	ready  bool     // it has said so
	lines  int      // of the run's console
	said   int64    // bytes of them
	queue  [][]byte // frames that wait for the writer
	busy   bool     // the writer owns the pipe
	woken  chan struct{}
	killed bool
	reaped bool
}

func newWorker(log *slog.Logger, ear Ear, proc *os.Process, stdin, stdout, stderr *os.File) *Worker {
	w := &Worker{
		log: log, ear: ear, proc: proc, stdin: stdin, stdout: stdout, stderr: stderr,
		asked: make(map[uint64]bool), woken: make(chan struct{}, 1),
	}
	w.limit.Store(idleFrame)
	return w
}

// PID returns the number of the process.
func (w *Worker) PID() int { return w.proc.Pid }

// Run hands a script to the process, which must be Ready. Run numbers are the
// caller's, never 0 and never used twice. It returns [ErrBusy] or [ErrGone],
// or an error of a script that cannot be sent; then nothing was sent.
func (w *Worker) Run(run uint64, s *Script) error {
	sent := *s
	sent.Limits = s.Limits.WithDefaults()
	if n := len(sent.Code); n > MaxFrame/8 {
		// The worker refuses by the script's own limit; this is about the wire.
		return fmt.Errorf("sandbox: a source of %d bytes cannot be sent to a worker", n)
	}
	data, err := EncodeFrame(&Frame{Run: run, Script: &sent})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.killed || w.reaped:
		return ErrGone
	case w.run != 0:
		return ErrBusy
	}
	w.run, w.limits, w.last, w.asks, w.lines, w.said = run, sent.Limits, 0, 0, 0, 0
	w.limit.Store(min(sent.Limits.OutputBytes, MaxOutputBytes) + besides)
	w.send(data)
	return nil
}

// Reply answers an ask. What nobody waits for any more is dropped: a second
// answer, or one of a run that has ended.
func (w *Worker) Reply(run uint64, r *Reply) {
	data, err := EncodeFrame(&Frame{Run: run, Reply: r})
	if err != nil {
		sorry := &Reply{ID: r.ID, Err: &CallError{
			Code: "SANDBOX_ERROR", Message: "the answer cannot be handed to the script: " + err.Error(),
			Hint: "ask for less",
		}}
		if data, err = EncodeFrame(&Frame{Run: run, Reply: sorry}); err != nil {
			return
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.run != run || !w.asked[r.ID] {
		return
	}
	delete(w.asked, r.ID)
	w.send(data)
}

// Stand lets the time of a run stand still while its script waits, or go on. A
// run that has ended has no time.
func (w *Worker) Stand(run uint64, still bool) {
	data, err := EncodeFrame(&Frame{Run: run, Stand: &Stand{Still: still}})
	if err != nil {
		return // it has a handful of bytes
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.run == run && run != 0 {
		w.send(data)
	}
}

// Kill ends the process, whatever it does; Gone follows.
func (w *Worker) Kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kill()
}

func (w *Worker) kill() {
	if w.killed || w.reaped {
		return
	}
	w.killed = true
	killGroup(w.proc)
}

// send writes a frame at once where the pipe takes it, which spares the wake-up
// of a goroutine, and queues what it does not take. The queue is bounded by the
// script, one reply for each ask, and the changes of its time, which are as many
// as the questions of its calls.
func (w *Worker) send(data []byte) {
	if !w.busy && len(w.queue) == 0 {
		if data = data[tryWrite(w.stdin, data):]; len(data) == 0 {
			return
		}
	}
	w.queue = append(w.queue, data)
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

func (w *Worker) start() {
	var stderr head
	said := make(chan struct{})
	go func() {
		defer close(said)
		_, _ = io.Copy(&stderr, w.stderr)
		_ = w.stderr.Close()
	}()
	stop, written := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(written)
		w.write(stop)
	}()
	go func() {
		err := w.read()
		w.Kill() // whoever has closed its output, or talks nonsense, is of no use
		state, werr := w.wait()
		close(stop)
		_ = w.stdin.Close()
		<-written
		_ = w.stdout.Close()
		<-said
		w.ear.Gone(w.explain(err, state, werr, stderr.String()))
	}()
}

// wait reaps the process. Its number may be another's from then on.
func (w *Worker) wait() (*os.ProcessState, error) {
	state, err := w.proc.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reaped = true
	return state, err
}

func (w *Worker) write(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-w.woken:
		}
		for queue := w.take(); len(queue) > 0; queue = w.take() {
			for _, data := range queue {
				if _, err := w.stdin.Write(data); err != nil {
					return // the reader learns of it
				}
			}
		}
	}
}

// take gives the writer what is queued, and the pipe as long as it gets any.
func (w *Worker) take() [][]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	queue := w.queue
	w.queue = nil
	w.busy = len(queue) > 0
	return queue
}

// read hears the process until its stream ends or breaks the rules.
func (w *Worker) read() error {
	r := bufio.NewReaderSize(fastReader(w.stdout), 64<<10)
	for {
		f, err := ReadFrame(r, w.limit.Load)
		if err != nil {
			return err
		}
		if err := w.hear(f); err != nil {
			return err
		}
	}
}

// hear checks a frame and passes it on: a worker that was taken over may send
// anything.
func (w *Worker) hear(f *Frame) error {
	w.mu.Lock()
	if f.Ready != nil {
		again := w.ready || w.run != 0
		w.ready = true
		w.mu.Unlock()
		if again {
			return errors.New("sandbox: the worker says a second time that it is ready")
		}
		w.ear.Ready(*f.Ready)
		return nil
	}
	if f.Run == 0 || f.Run != w.run {
		w.mu.Unlock()
		return fmt.Errorf("sandbox: the worker speaks of a run %d that it does not have", f.Run)
	}
	switch {
	case f.Ask != nil:
		if err := w.check(f.Ask); err != nil {
			w.mu.Unlock()
			return err
		}
		w.last = f.Ask.ID
		w.asked[f.Ask.ID] = true
		w.asks++
		w.mu.Unlock()
		w.ear.Asked(f.Run, f.Ask)
	case f.Line != nil:
		err := w.checkLine(f.Line)
		w.mu.Unlock()
		if err != nil {
			return err
		}
		w.ear.Said(f.Run, *f.Line)
	case f.Outcome != nil:
		if f.Outcome.Value != nil && f.Outcome.Failure != nil {
			w.mu.Unlock()
			return errors.New("sandbox: the worker sent a value and a failure")
		}
		w.run = 0
		clear(w.asked)
		w.limit.Store(idleFrame)
		w.mu.Unlock()
		w.ear.Finished(f.Run, f.Outcome)
	default:
		w.mu.Unlock()
		return errors.New("sandbox: the worker sent a frame of no known kind")
	}
	return nil
}

// maxHeardLines is more lines than an honest worker sends of a run.
const maxHeardLines = 10_000

// checkLine holds a line of the console to the run's limits, with some room: the
// worker counts the value as well and ends the run before. It is called with
// the lock.
func (w *Worker) checkLine(l *Line) error {
	w.lines++
	w.said += int64(len(l.Text))
	switch {
	case !slices.Contains(levels, l.Level):
		return errors.New("sandbox: the worker sent a line of no known level")
	case w.lines > maxHeardLines || w.said > w.limits.OutputBytes+besides:
		return fmt.Errorf("sandbox: the worker sent %d lines of %d bytes to the console", w.lines, w.said)
	}
	return nil
}

// check holds an ask to the run's limits. It is called with the lock.
func (w *Worker) check(a *Ask) error {
	switch {
	case a.ID <= w.last:
		return fmt.Errorf("sandbox: the worker asks number %d after number %d", a.ID, w.last)
	case a.Kind != AskCall && a.Kind != AskDiscover && a.Kind != AskResult:
		return fmt.Errorf("sandbox: the worker asks for %s", a.Kind)
	case len(w.asked) >= w.limits.Concurrent:
		return fmt.Errorf("sandbox: the worker asks for more than %d things at once", w.limits.Concurrent)
	case w.asks >= w.limits.Calls:
		return fmt.Errorf("sandbox: the worker asks for more than %d things", w.limits.Calls)
	case !isObject(a.Args):
		return errors.New("sandbox: the worker asks with arguments that are no object")
	case a.TimeoutMs < 0:
		return errors.New("sandbox: the worker asks with a negative timeout")
	}
	return nil
}

// isObject tells whether text, which is valid JSON, is an object.
func isObject(text json.RawMessage) bool {
	text = bytes.TrimLeft(text, " \t\r\n")
	return len(text) > 0 && text[0] == '{'
}

// explain says why the process has ended.
func (w *Worker) explain(err error, state *os.ProcessState, werr error, stderr string) error {
	stderr = strings.TrimSpace(stderr)
	if stderr != "" {
		w.log.Warn("a sandbox worker has said something on stderr before it ended", "pid", w.proc.Pid, "stderr", stderr)
	}
	switch {
	case !errors.Is(err, io.EOF):
		return err
	case werr != nil:
		return fmt.Errorf("sandbox: wait for the worker: %w", werr)
	case stderr != "":
		line, _, _ := strings.Cut(stderr, "\n")
		return fmt.Errorf("sandbox: the worker has ended (%s): %s", state, line)
	}
	return fmt.Errorf("sandbox: the worker has ended (%s)", state)
}

// head keeps the beginning of what is written: a runtime that fails says why
// first.
type head struct{ kept []byte }

func (h *head) Write(p []byte) (int, error) {
	h.kept = append(h.kept, p[:min(len(p), keptStderr-len(h.kept))]...)
	return len(p), nil
}

func (h *head) String() string { return string(h.kept) }
