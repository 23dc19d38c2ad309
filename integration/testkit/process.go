package testkit

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"
)

// MarkVariable is the environment variable that tells the processes of one test
// from all others of the machine.
const MarkVariable = "METAMCP_TEST_MARK"

const (
	exitWait = 20 * time.Second // for a process that was killed to be gone
	// stderrWait is how long the end of stderr may be held open by others once
	// the process itself has ended.
	stderrWait = 2 * time.Second
)

// NewMark returns a value for [MarkVariable] that nobody else uses.
func NewMark() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails, as crypto/rand promises
	return hex.EncodeToString(b[:])
}

// Command is a process to start.
type Command struct {
	Path string
	Args []string
	Env  []string // added to the test's own environment
	Dir  string   // "": a folder of the test
	Mark string   // "": a new one
	// UnreadStderr leaves what the process writes to stderr in its pipe, as
	// many clients do.
	UnreadStderr bool
}

// Process is a started process with pipes on all three ends.
type Process struct {
	PID int
	// Mark is in the environment of the process, and of those that it starts
	// with its own environment.
	Mark   string
	Dir    string
	Stderr *Tail

	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	taken  atomic.Bool // stdout has a reader
	stderr *os.File
	exited chan struct{}
	err    error         // of Wait; to be read when exited is closed
	quiet  chan struct{} // closed at the end of stderr
}

// StartCommand starts a process, and kills it and everything that carries its
// mark when the test ends. Its stderr is shown where the test has failed.
func StartCommand(tb testing.TB, c Command) *Process {
	tb.Helper()
	if c.Mark == "" {
		c.Mark = NewMark()
	}
	if c.Dir == "" {
		c.Dir = tb.TempDir()
	}
	p, err := start(c)
	if err != nil {
		tb.Fatalf("start %s: %v", c.Path, err)
	}
	tb.Cleanup(func() { p.end(tb) })
	return p
}

// start gives the process pipes of our own: with those of os/exec, Wait would
// close stdout under its reader, and wait for grandchildren that hold stderr.
func start(c Command) (*Process, error) {
	p := &Process{Mark: c.Mark, Dir: c.Dir, Stderr: &Tail{}, exited: make(chan struct{}), quiet: make(chan struct{})}
	p.cmd = exec.Command(c.Path, c.Args...) //nolint:noctx // Tests end what they start themselves.
	p.cmd.Dir = c.Dir
	p.cmd.Env = append(append(os.Environ(), c.Env...), MarkVariable+"="+c.Mark)
	stdin, stdout, stderr, err := p.pipes()
	if err != nil {
		return nil, err
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = stdin, stdout, stderr
	err = p.cmd.Start()
	_, _, _ = stdin.Close(), stdout.Close(), stderr.Close() // the child has its own
	if err != nil {
		p.closePipes()
		return nil, err
	}
	p.PID = p.cmd.Process.Pid
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	if c.UnreadStderr {
		close(p.quiet)
		return p, nil
	}
	go func() {
		_, _ = io.Copy(p.Stderr, p.stderr) // ends with the writers, or when end closes it
		close(p.quiet)
	}()
	return p, nil
}

// pipes makes three pipes, keeps our ends and returns the child's.
func (p *Process) pipes() (stdin, stdout, stderr *os.File, err error) {
	stdin, p.stdin, err = os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	p.stdout, stdout, err = os.Pipe()
	if err != nil {
		return nil, nil, nil, errors.Join(err, stdin.Close(), p.stdin.Close())
	}
	p.stderr, stderr, err = os.Pipe()
	if err != nil {
		return nil, nil, nil, errors.Join(err, stdin.Close(), p.stdin.Close(), stdout.Close(), p.stdout.Close())
	}
	return stdin, stdout, stderr, nil
}

// closePipes closes our ends; a second time does no harm.
func (p *Process) closePipes() {
	_, _, _ = p.stdin.Close(), p.stdout.Close(), p.stderr.Close()
}

// Stdin is the writing end of the process's standard input.
func (p *Process) Stdin() io.WriteCloser { return p.stdin }

// Stdout is the reading end of the process's standard output. It has one
// reader: the test, a [Process.Lines] or a client, whoever comes first.
func (p *Process) Stdout(tb testing.TB) io.ReadCloser {
	tb.Helper()
	if !p.taken.CompareAndSwap(false, true) {
		tb.Fatal("the standard output of this process has a reader already")
	}
	return p.stdout
}

// CloseStdin ends the process's standard input. Twice does no harm.
func (p *Process) CloseStdin() { _ = p.stdin.Close() }

// CloseStderr leaves the process's stderr without a reader, as a client does that
// ends: what is written to it from then on fails. Twice does no harm.
func (p *Process) CloseStderr() { _ = p.stderr.Close() }

// Signal sends a signal to the process alone. One that has ended gets none.
func (p *Process) Signal(tb testing.TB, s os.Signal) {
	tb.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		tb.Fatalf("send %v to process %d: %v", s, p.PID, err)
	}
}

// Exited is closed when the process has ended and was reaped.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Wait waits for the end of the process and returns its exit status, -1 where a
// signal ended it. It then waits a little more for the end of stderr, which
// others may hold; who measures time waits for [Process.Exited].
func (p *Process) Wait(tb testing.TB, within time.Duration) int {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	select {
	case <-p.exited:
		late := time.NewTimer(stderrWait)
		defer late.Stop()
		select {
		case <-p.quiet:
		case <-late.C:
		}
		return p.cmd.ProcessState.ExitCode()
	case <-ctx.Done():
		tb.Fatalf("process %d has not ended within %s; the end of its stderr:\n%s", p.PID, within, p.Stderr)
		return -1
	}
}

// end leaves nothing of the process behind.
func (p *Process) end(tb testing.TB) {
	tb.Helper()
	p.CloseStdin()
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		tb.Errorf("kill process %d: %v", p.PID, err)
	}
	KillMarked(tb, p.Mark)
	select {
	case <-p.exited:
	case <-time.After(exitWait):
		tb.Errorf("process %d was killed and has not ended within %s", p.PID, exitWait)
		return
	}
	select {
	case <-p.quiet:
	case <-time.After(stderrWait): // somebody without the mark holds it
	}
	p.closePipes()
	<-p.quiet
	if tb.Failed() {
		tb.Logf("process %d ended with %v (%v); the end of its stderr:\n%s", p.PID, p.cmd.ProcessState, p.err, p.Stderr)
	}
}
