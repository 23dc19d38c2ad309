package child

import (
	"encoding/json"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/integration/childlog"
	"github.com/metamcp/metamcp/integration/limits"
	"github.com/metamcp/metamcp/messages"
)

// cutAfter is how long the stream may go on after the process has exited or
// its stdin has failed: what is left in the pipe is read, then we stop
// listening to whoever else holds it.
const cutAfter = 200 * time.Millisecond

// wordsLimit is how much longer the report of an exit waits where stderr has something
// that was not read yet.
const wordsLimit = time.Second

// mostLeft is how many bytes are taken to be left in the pipe when we stop listening:
// as much as a pipe holds. Who writes on and on keeps nobody.
const mostLeft = 1 << 20

// Process is one running child and its process tree. Its methods may be called
// from any goroutine; except for Release and TreeAlive they do not block.
type Process struct {
	launcher *Launcher
	instance uint64
	ear      Ear
	proc     *os.Process
	pid      int
	start    uint64
	marker   string
	kills    uint64 // by the kernel for want of memory, before the start
	tree     *tree
	group    *limits.Group // nil: it has none
	log      *childlog.Log

	out    *output
	stdout *os.File
	stderr *os.File

	requested atomic.Bool // we asked for its end
	gone      atomic.Bool // the last look found nobody of the tree

	mu       sync.Mutex
	cutErr   error // why the reader was cut; nil: it was not
	wider    int   // bytes of the launcher's budget of pipe sizes
	errFD    int   // of stderr, once the sentry has waited for it; -1 before
	deaf     bool  // stderr is closed
	killer   sync.WaitGroup
	released bool // no more goroutines of killer

	readDone chan struct{} // EOF was called
	errDone  chan struct{} // stderr has ended
	errTaken atomic.Bool   // who reads stderr may have something that the log has not
	reaped   chan struct{} // the process was waited for
	done     chan struct{} // Exited was called
	release  sync.Once
}

// Pid returns the process id, which is also the id of the process group.
func (p *Process) Pid() int { return p.pid }

// Stderr returns the last lines of stderr (and of our notes in the log),
// oldest first: at most 20 of at most 500 bytes.
func (p *Process) Stderr() []string { return p.log.Last() }

// Send writes one JSON-RPC message, with or without its final line feed. It
// never blocks: what the pipe does not take at once is queued in order.
//
// The slice is handed over: it may be read until it is written, however late,
// and must not be changed by anyone any more. Line breaks inside it become
// blanks, which is right for JSON: a line feed or a carriage return.
//
// It returns [ErrBacklog] when more than the queue's limit waits already,
// [ErrInputClosed] after CloseInput, [ErrWriteStalled] and errors of the pipe
// when the connection has failed (EOF follows). After an error of the pipe a
// part of the message may have been written; after the others nothing was.
func (p *Process) Send(line []byte) error { return p.out.send(line, nil, nil) }

// Sendv is [Process.Send] for a message in three pieces, any of which may be
// empty; they are written without being joined.
func (p *Process) Sendv(head, body, tail []byte) error { return p.out.send(head, body, tail) }

// Cork lets what is sent from now on wait for the end of b, so that the child gets it
// in one write, and writes what still waits for another burst. Where b is nil or over,
// or the child is slow to read, nothing waits for a burst. Some 32 small messages, or
// 32 KiB, are held back at most. What goes wrong with a message that is held back is
// told by EOF alone.
func (p *Process) Cork(b *messages.Burst) { p.out.cork(b) }

// Retract takes back what waits to be written, but for the rest of a message of which a
// part was. It returns the ids of the requests among it, in order: nothing of them has
// reached the child, and nothing will.
func (p *Process) Retract() []json.RawMessage { return p.out.retract() }

// CloseInput closes stdin once what is queued was written, which asks a server
// to exit.
func (p *Process) CloseInput() {
	p.requested.Store(true)
	p.out.closeInput()
}

// Signal sends a signal to the whole tree. SignalTerminate reaches the process
// group (on Windows: Ctrl-Break). SignalKill also reaches whoever left the
// group, where proctree can find it; it is delivered by a goroutine within
// some milliseconds, at most 100 ms for the group. A tree that is gone is no
// error.
func (p *Process) Signal(s messages.Signal) {
	p.requested.Store(true)
	if s == messages.SignalTerminate {
		p.tree.terminate()
		return
	}
	p.kill()
}

func (p *Process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.released {
		return
	}
	p.killer.Go(func() {
		p.tree.kill(&p.launcher.scanner, p.marker)
		p.group.Kill() // also those who hide
	})
}

// TreeAlive reports whether any process of the tree is left; one that was
// reaped does not count. Once the process and its group are gone this takes
// some milliseconds, since all processes of the machine are looked at (callers
// at the same time share one look): poll it from a worker goroutine.
func (p *Process) TreeAlive() bool {
	select {
	case <-p.reaped:
		alive := p.group.Alive() || p.tree.alive(&p.launcher.scanner, p.marker)
		p.gone.Store(!alive)
		return alive
	default:
		return true
	}
}

// Done is closed when Exited has returned.
func (p *Process) Done() <-chan struct{} { return p.done }

// Release gives everything back: descriptors, goroutines, the entry in the
// guard's list. It is called once the tree is gone; a tree that still lives is
// killed. It looks for itself where the last [Process.TreeAlive] has not found the
// tree gone. It waits for all calls of the Ear to return, so it must not be called
// from one of them. Calling it again waits for the first call.
func (p *Process) Release() {
	p.release.Do(func() {
		if !p.gone.Load() && p.TreeAlive() {
			p.requested.Store(true)
			p.kill()
		}
		<-p.done
		p.out.stop()
		_ = p.stdout.Close()
		p.closeErrors()
		p.mu.Lock()
		p.released = true
		p.mu.Unlock()
		p.killer.Wait()
		if g := p.launcher.o.Guard; g != nil {
			g.Remove(p.pid, p.start)
		}
		p.tree.abandon()
		if err := p.group.Close(); err != nil {
			p.launcher.o.Log.Warn("what bounded a server stays", "error", err)
		}
		p.log.Close()
		p.launcher.wide.giveBack(p.wider)
	})
}

// cut ends the reading of stdout after a while. The first reason stays.
func (p *Process) cut(why error, after time.Duration) {
	p.mu.Lock()
	if p.cutErr == nil {
		p.cutErr = why
	}
	p.mu.Unlock()
	if err := p.stdout.SetReadDeadline(time.Now().Add(after)); err != nil {
		// A pipe without deadlines (Windows) ends when nobody holds it.
		p.kill()
	}
}

// cutReason is why the reading of stdout was ended; nil: it was not.
func (p *Process) cutReason() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cutErr
}

// widen makes both pipes larger for a child with large messages.
func (p *Process) widen(f *os.File) {
	n := p.launcher.wide.grow(f)
	p.mu.Lock()
	p.wider += n
	p.mu.Unlock()
}
