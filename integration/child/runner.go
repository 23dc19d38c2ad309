package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/integration/child/proctree"
)

// DefaultMaxOutput is how much of a program's output is kept where nothing else
// is said.
const DefaultMaxOutput = 1 << 20

// firstRun is far above the numbers of connections' instances: markers of both
// must differ.
const firstRun = 1 << 62

// runs counts the programs of this process.
var runs atomic.Uint64

// Runner runs programs that end by themselves, such as package managers, and
// leaves nobody of their trees behind. It is safe for any goroutine.
type Runner struct {
	guard   Guard
	hostID  string
	scanner proctree.Scanner
}

// NewRunner returns a runner; guard learns of every tree, nil: they may outlive
// a host that is killed.
func NewRunner(guard Guard) *Runner {
	r := &Runner{guard: guard}
	if guard != nil {
		r.hostID = guard.HostID()
	} else {
		r.hostID = NewHostID()
	}
	r.scanner.Since, _ = proctree.StartTime(os.Getpid())
	return r
}

// Program is one program to run, with an empty standard input.
type Program struct {
	Path string // of the file
	Args []string
	Dir  string // working folder; "": the host's
	Env  []string
	// MaxOutput bounds what is kept of each stream (DefaultMaxOutput); the rest
	// is read and dropped.
	MaxOutput int
}

// Outcome is how a program ended.
type Outcome struct {
	Stdout, Stderr []byte
	// Code is the exit status, Signal the name of the signal that ended it; ""
	// where none did.
	Code   int
	Signal string
}

// Run runs a program to its end. When ctx ends it is killed with its whole
// tree, and the error wraps that of ctx; any other error says that it did not
// start. The outcome is there in both of the first cases. What a program that
// ended left running is killed as well.
func (r *Runner) Run(ctx context.Context, p *Program) (*Outcome, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.guard != nil {
		r.guard.Ready()
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer func() { _ = null.Close() }() // nothing was written
	out, outChild, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	errs, errsChild, err := os.Pipe()
	if err != nil {
		closeFiles(out, outChild)
		return nil, err
	}
	defer closeFiles(out, errs)

	marker := proctree.Marker(r.hostID, firstRun+runs.Add(1))
	attr := &os.ProcAttr{Dir: p.Dir, Env: withMarker(p.Env, marker), Files: []*os.File{null, outChild, errsChild}}
	t, err := newTree(attr)
	if err != nil {
		closeFiles(outChild, errsChild)
		return nil, err
	}
	defer t.abandon()
	proc, err := os.StartProcess(p.Path, append([]string{p.Path}, p.Args...), attr)
	closeFiles(outChild, errsChild)
	if err != nil {
		return nil, err
	}
	if err := t.adopt(proc); err != nil {
		_ = proc.Kill()
		_, _ = proc.Wait()
		return nil, fmt.Errorf("the process could not be put under control and was ended: %w", err)
	}
	if r.guard != nil {
		start, _ := proctree.StartTime(proc.Pid)
		r.guard.Add(proc.Pid, start, marker)
		defer r.guard.Remove(proc.Pid, start)
	}
	return r.follow(ctx, p, proc, t, marker, out, errs)
}

// follow reads the output until the tree is gone.
func (r *Runner) follow(ctx context.Context, p *Program, proc *os.Process, t *tree, marker string, out, errs *os.File) (*Outcome, error) {
	most := p.MaxOutput
	if most <= 0 {
		most = DefaultMaxOutput
	}
	stdout, stderr := bounded{most: most}, bounded{most: most}
	var readers sync.WaitGroup
	readers.Go(func() { _, _ = io.Copy(&stdout, out) }) // what came until an error is what there is
	readers.Go(func() { _, _ = io.Copy(&stderr, errs) })

	states := make(chan *os.ProcessState, 1)
	go func() { states <- t.wait(proc) }()
	var state *os.ProcessState
	select {
	case state = <-states:
	case <-ctx.Done():
		t.kill(&r.scanner, marker)
		state = <-states
	}
	// The bound is for those who cannot be killed.
	for range 10 {
		if !t.alive(&r.scanner, marker) {
			break
		}
		t.kill(&r.scanner, marker)
	}
	// Whoever else holds the pipes is none of ours.
	limit := time.Now().Add(cutAfter)
	if err := errors.Join(out.SetReadDeadline(limit), errs.SetReadDeadline(limit)); err != nil {
		closeFiles(out, errs)
	}
	readers.Wait()
	exit := exitOf(state)
	o := &Outcome{Stdout: stdout.kept, Stderr: stderr.kept, Code: exit.Code, Signal: exit.Signal}
	if ctx.Err() != nil && exit.Code != 0 {
		return o, fmt.Errorf("ended while it ran: %w", context.Cause(ctx))
	}
	return o, nil
}

// bounded keeps the beginning of what is written.
type bounded struct {
	kept []byte
	most int
}

// Write implements io.Writer; it never fails.
func (b *bounded) Write(text []byte) (int, error) {
	room := b.most - len(b.kept)
	b.kept = append(b.kept, text[:min(len(text), room)]...)
	return len(text), nil
}
