package child

import (
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/metamcp/metamcp/integration/limits"
	"github.com/metamcp/metamcp/messages"
)

// newProcess puts the parts together; nothing runs yet.
func newProcess(l *Launcher, spec *messages.ServerSpec, instance uint64, ear Ear, proc *os.Process, start uint64, marker string, t *tree, pp *pipes) *Process {
	p := &Process{
		launcher: l, instance: instance, ear: ear,
		proc: proc, pid: proc.Pid, start: start, marker: marker, tree: t,
		log:    l.o.Logs.Open(spec.Name, "#"+strconv.FormatUint(instance, 10)),
		stdout: pp.out, stderr: pp.err, errFD: -1,
		readDone: make(chan struct{}), errDone: make(chan struct{}),
		reaped: make(chan struct{}), done: make(chan struct{}),
	}
	p.out = &output{
		file: pp.in, limit: l.o.MaxQueue, stall: l.o.WriteStall,
		widen: func() { p.widen(pp.in) },
		failed: func(err error) {
			if errors.Is(err, ErrWriteStalled) {
				p.cut(err, 0)
			} else {
				p.cut(err, cutAfter)
			}
		},
	}
	return p
}

// run starts the goroutines. Release waits for them.
func (p *Process) run() {
	var err error
	if p.out.write, err = newPipeWriter(p.out); err != nil {
		p.out.err = err
	}
	go p.readOutput()
	go p.readErrors()
	if !p.launcher.sentry.exited(p.proc, p.reap) {
		go p.reap()
	}
}

// readOutput is the one goroutine that reads stdout.
func (p *Process) readOutput() {
	defer close(p.readDone)
	in := &inbox{p: p}
	in.lines = splitter{sink: in, max: p.launcher.o.MaxLine}
	read, err := pipeReader(p.stdout, in.lines.room, func(int) bool { in.lines.idle(); return false })
	for err == nil {
		var n int
		if n, err = read(); err == nil {
			err = in.took(n)
		}
	}
	if isCut(err) {
		if p.readRest(in) {
			err = io.EOF
		} else if why := p.cutReason(); why != nil {
			err = why
		}
		// Whoever still writes to the pipe learns that nobody listens.
		_ = p.stdout.Close()
	}
	in.finish()
	p.ear.EOF(err)
}

// readRest reads what is in the pipe when we stop listening: the reader may have been
// busy with what came before until then. It reports whether the stream has ended.
func (p *Process) readRest(in *inbox) (ended bool) {
	for left := mostLeft; left > 0; {
		n, err := readNow(p.stdout, in.lines.room())
		if err != nil {
			return false
		}
		if in.took(n) != nil {
			return true
		}
		left -= n
	}
	return false
}

var errorBuffers = sync.Pool{New: func() any { b := make([]byte, 16<<10); return &b }}

// errLater says that the sentry waits until there is more to read.
var errLater = errors.New("more is read later")

// readErrors drains stderr into the log until it ends or Release closes it. Most
// children say nothing there for hours: no goroutine waits for it where the sentry
// can.
func (p *Process) readErrors() {
	var held *[]byte
	give := func() {
		if held != nil {
			errorBuffers.Put(held)
			held = nil
		}
	}
	defer give()
	read, err := pipeReader(p.stderr, func() []byte {
		p.errTaken.Store(true)
		if held == nil {
			held = errorBuffers.Get().(*[]byte)
		}
		return *held
	}, func(fd int) bool {
		p.errTaken.Store(false)
		give()
		return p.readErrorsLater(fd)
	})
	for err == nil {
		var n int
		if n, err = read(); err != nil || n == 0 {
			break
		}
		_, _ = p.log.Write((*held)[:n])
	}
	if !errors.Is(err, errLater) {
		p.endErrors()
	}
}

// readErrorsLater has the sentry go on with readErrors, and reports whether it will.
func (p *Process) readErrorsLater(fd int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deaf || p.launcher.sentry.await(fd, p.readErrors) != nil {
		return false
	}
	p.errFD = fd
	return true
}

// closeErrors ends the reading of stderr.
func (p *Process) closeErrors() {
	p.mu.Lock()
	p.deaf = true
	parked := p.errFD >= 0 && p.launcher.sentry.forget(p.errFD)
	p.mu.Unlock()
	_ = p.stderr.Close()
	if parked {
		p.endErrors()
	}
	<-p.errDone
}

func (p *Process) endErrors() {
	p.log.Finish()
	close(p.errDone)
}

// reap waits for the process and reports its exit. Where the sentry waited for it
// first, it starts when the process has ended.
func (p *Process) reap() {
	defer close(p.done)
	state := p.tree.wait(p.proc)
	close(p.reaped)
	ended := time.Now()

	select {
	case <-p.readDone:
	default:
		p.cut(ErrOutputHeld, cutAfter)
		<-p.readDone
	}
	// The last words of stderr belong to the report, but where none are left to read
	// it waits for no longer than for those of stdout.
	left := time.NewTimer(max(cutAfter-time.Since(ended), time.Millisecond))
	defer left.Stop()
	select {
	case <-p.errDone:
	case <-left.C:
		awaitRead(p.errDone, func() bool { return unread(p.stderr, &p.errTaken) }, wordsLimit)
	}
	exit := exitOf(state)
	exit.Requested = p.requested.Load()
	exit.Refused = p.group.Refused()
	if kills, ok := limits.Kills(); ok && !exit.Requested && exit.Signal == "SIGKILL" {
		exit.OverLimit = p.group.OutOfMemory()
		exit.OutOfMemory = exit.OverLimit || kills > p.kills
	}
	exit.Stderr = p.log.Last()
	p.ear.Exited(exit)
}

// awaitRead waits until done, as long as there is something left to read: where the
// machine is busy, who reads may not have come to it. limit is for who writes on.
func awaitRead(done <-chan struct{}, left func() bool, limit time.Duration) {
	over := time.NewTimer(limit)
	defer over.Stop()
	const every = 5 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	for left() {
		select {
		case <-done:
			return
		case <-over.C:
			return
		case <-tick.C:
		}
	}
}
