package actors

import (
	"encoding/json"
	"errors"

	"github.com/metamcp/metamcp/messages"
)

// ErrBacklog is what a link returns while too much is queued for its child.
var ErrBacklog = errors.New("it does not read its input fast enough")

// evident is an error of a transport that knows itself what a breaker should make
// of it.
type evident interface {
	error
	Evidence() messages.Evidence
}

// Launcher starts the transport of a connection. Launch may take as long as a
// fork and an exec; a connection calls it from a worker. The number is unique
// in this host and marks the process tree. The ear hears of the transport until
// it said both EOF and Exited.
type Launcher interface {
	Launch(spec *messages.ServerSpec, number uint64, ear Ear) (Link, error)
}

// Ear hears what a child says. All methods but Exited are called in order from
// one goroutine, and none of them blocks.
type Ear interface {
	Frame(f *messages.Frame)
	// Flush follows the last frame of what was read at once.
	Flush()
	// Noise is a line that was no JSON-RPC.
	Noise(line []byte)
	// Broken is a line that was meant as the answer to the request with this
	// id but cannot be used; line is its beginning. A why that has an Evidence
	// method tells what the server did instead of answering.
	Broken(id json.RawMessage, line []byte, why error)
	// TooLarge says that a message over the size cap was thrown away. id is
	// that of the request which it answers, nil where that is not known.
	TooLarge(id json.RawMessage)
	// Renewed says that the child has forgotten whatever it was told before, though
	// the link stays, and that its lists may be others: a server behind a URL has a
	// new session, of which welcome is what it says of itself.
	Renewed(welcome json.RawMessage)
	// Unheard says that for a while nobody heard what the child says on its own: its
	// lists may be others.
	Unheard()
	// EOF says that no frame follows; exactly once. An err that has an Evidence
	// method says all there is to say about the end.
	EOF(err error)
	// Exited says that the process was reaped; exactly once.
	Exited(exit *messages.Exit)
}

// Link is the way to a running child, or to a server behind a URL: that has no
// process of ours, so Pid is 0, Stderr empty, and its "tree" is the connection. Its methods may be called from any
// goroutine; only TreeAlive, Signal and Release take longer than a moment.
type Link interface {
	// Send hands over one whole line and never blocks. ErrBacklog says that
	// nothing of it was taken; any other error that the link has failed, which
	// EOF will tell.
	Send(line []byte) error
	// Sendv is Send for a line in parts, none of which is copied if it can be
	// written at once.
	Sendv(head, body, tail []byte) error
	// Cork lets what is sent from now on wait for the end of b, but not for that
	// of another burst; nil: for none. What is held back counts as sent: it may be
	// lost, which EOF will tell.
	Cork(b *messages.Burst)
	// Retract takes back requests of which the child has seen nothing, and sees nothing
	// any more: it returns their ids. After EOF these are all that it has not seen.
	// The connection is over with them; what else waits to be written may be lost.
	Retract() []json.RawMessage
	// CloseInput ends the child's stdin once what was sent is written.
	CloseInput()
	// Signal reaches every process of the child's tree.
	Signal(s messages.Signal)
	// TreeAlive looks whether any process of the tree is left.
	TreeAlive() bool
	// Release frees what the link holds. The tree must be gone.
	Release()
	Pid() int
	// Stderr returns the last lines that the child wrote there.
	Stderr() []string
}

// earOf sends what one run of a child says to its connection.
type earOf struct {
	c      *connection
	run    uint64
	server string
	more   bool // a frame of this burst may be held back
}

// What a run says to its connection. Frames come as *messages.Frame with the
// run as their instance.
type (
	runNoise struct {
		run  uint64
		line string
	}
	runBroken struct {
		run  uint64
		id   json.RawMessage
		line string
		why  error
	}
	runTooLarge struct {
		run uint64
		id  json.RawMessage
	}
	runRenewed struct {
		run     uint64
		welcome json.RawMessage
	}
	runUnheard struct{ run uint64 }
	// runFlush follows the last frame of a burst.
	runFlush struct{ run uint64 }
	runEOF   struct {
		run uint64
		err error
	}
	runExited struct {
		run  uint64
		exit *messages.Exit
	}
	// runStarting says that a start has its turn.
	runStarting struct{ run uint64 }
	runLaunched struct {
		run  uint64
		link Link
		err  error
	}
	runGone struct{ run uint64 }
	// runStep says that a step of the termination ladder was taken.
	runStep struct {
		run   uint64
		step  int
		alive bool
	}
	ladderDue struct {
		run  uint64
		step int
	}
)

func (e *earOf) Frame(f *messages.Frame) {
	f.Instance = e.run
	if scrub := e.c.deps.scrub; scrub != nil && isForCaller(f) {
		state := requestState(f)
		scrub(e.server, f)
		keepState(f, state)
	}
	e.more = e.more || f.More
	e.c.sys.Send(e.c.self, f)
}

// isForCaller says whether a frame goes to whoever made a call; the others are
// the connection's own.
func isForCaller(f *messages.Frame) bool {
	switch f.Method {
	case "":
	case methodProgress, methodMessage, methodElicited, methodCancelled, messages.MethodElicit, messages.MethodSample, messages.MethodRoots:
		return true
	default:
		return false
	}
	id, ok := messages.ParseRequestID(f.ID)
	return ok && id < internalID
}

// Flush lets go what was held back for answers that were none.
func (e *earOf) Flush() {
	if e.more {
		e.more = false
		e.c.sys.Send(e.c.self, &runFlush{e.run})
	}
}

func (e *earOf) Noise(line []byte) {
	e.c.sys.Send(e.c.self, &runNoise{e.run, e.c.deps.beginning(line)})
}

func (e *earOf) Broken(id json.RawMessage, line []byte, why error) {
	e.c.sys.Send(e.c.self, &runBroken{e.run, id, e.c.deps.beginning(line), why})
}

// beginning is as much of a line as people need to recognise it. A secret is looked
// for before the rest of it may be cut off.
func (d *connectionDeps) beginning(line []byte) string {
	const enough, searched = 300, 8 << 10
	if d.scrubText != nil && len(line) > enough {
		line = d.scrubText(line[:min(len(line), searched)])
	}
	return string(line[:min(len(line), enough)])
}

func (e *earOf) TooLarge(id json.RawMessage) {
	e.c.sys.Send(e.c.self, &runTooLarge{e.run, id})
}

func (e *earOf) Renewed(welcome json.RawMessage) { e.c.sys.Send(e.c.self, &runRenewed{e.run, welcome}) }
func (e *earOf) Unheard()                        { e.c.sys.Send(e.c.self, &runUnheard{e.run}) }
func (e *earOf) EOF(err error)                   { e.c.sys.Send(e.c.self, &runEOF{e.run, err}) }
func (e *earOf) Exited(exit *messages.Exit)      { e.c.sys.Send(e.c.self, &runExited{e.run, exit}) }
