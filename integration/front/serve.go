package front

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/messages"
)

// The defaults of [Options].
const (
	DefaultTool          = "mcp_call"
	DefaultDrainTimeout  = 30 * time.Second
	DefaultMaxConcurrent = 1024
)

// flushTimeout is how long the end of a session waits for its client to read
// the last answers, and for handlers that do not end when they are told to.
const flushTimeout = 5 * time.Second

// Options are what [Serve] needs besides the two files.
type Options struct {
	// MCP answers everything but the calls of Tool. Required.
	MCP *server.MCPServer
	// Engine answers the calls of Tool. Required.
	Engine Engine
	// Passed answers requests that go to servers beside calls; nil: none do.
	Passed Passed
	// Tool is the name of the spliced tool; "": mcp_call.
	Tool string
	// Session is the number of this client connection; 0: a new one.
	Session uint64
	// ServerInfo is our own identity as one JSON object, for the _meta of
	// results to modern clients; nil: it is left out.
	ServerInfo []byte
	// DrainTimeout is how long requests in flight may take after the input
	// has ended or the context is done; 0: 30 s.
	DrainTimeout time.Duration
	// DrainLeft, where not nil, is asked instead when the session begins to end. told
	// says that the context is done: a part of the time may be over by then. What is
	// not above 0 leaves none.
	DrainLeft func(told bool) time.Duration
	// Hurry, where not nil, is closed when no session that ends is to wait any longer
	// for what is in flight.
	Hurry <-chan struct{}
	// MaxLine is the longest line of a client, in bytes; 0: [MaxLine].
	MaxLine int
	// MaxConcurrent is how many requests mcp-go works on at once; 0: 1024.
	MaxConcurrent int
	// Ready, where not nil, is called with the client's peer before the first
	// line is read.
	Ready func(*Peer)
	// Via, where not nil, is the way to a client that a handler's calls take, for
	// the request with that number.
	Via func(client messages.ClientPort, request uint64) messages.ClientPort
	// Parked are the calls of all fronts of the host that wait for clients; nil:
	// this front has its own.
	Parked *Parked
	// Owner is who may take over what is parked of this client; "": this session
	// alone.
	Owner string
	// Unread counts what waits for all clients of the host; nil: this front counts
	// for itself.
	Unread *Unread
	// Room, where not nil, is called when there is room again for answers to a client
	// for which too much had waited; see [Peer.Full]. It may be called more than once for
	// that, and must not block.
	Room func()
	// Log takes what the operator should know; nil: nothing is logged.
	Log *slog.Logger
	// Listed is closed once it is known which tools the servers have. Until then
	// [Serve] takes the handshake, pings and tools/list, which does not show them, and
	// nothing from the first other request on. Nil: it is known.
	Listed <-chan struct{}
	// InputEnded, where not nil, is called once the client can answer nothing any
	// more. It must not block.
	InputEnded func()

	notifications int // that mcp-go may have on their way; 0: notificationBuffer
}

func (o Options) withDefaults() Options {
	if o.Tool == "" {
		o.Tool = DefaultTool
	}
	if o.Session == 0 {
		o.Session = NextSession()
	}
	if o.DrainTimeout <= 0 {
		o.DrainTimeout = DefaultDrainTimeout
	}
	if o.notifications <= 0 {
		o.notifications = notificationBuffer
	}
	if o.MaxLine <= 0 {
		o.MaxLine = MaxLine
	}
	if o.MaxConcurrent <= 0 {
		o.MaxConcurrent = DefaultMaxConcurrent
	}
	if o.Unread == nil {
		o.Unread = new(Unread)
	}
	if o.Parked == nil {
		o.Parked = NewParked()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Serve talks MCP with one client until its input ends or ctx is done. Then it
// takes no new requests, waits until those in flight are answered, and
// returns. It closes neither file.
//
// The error says why the session ended early or lost answers; nil is the
// ordinary end. Where in is a terminal, a read may outlive Serve until the
// user presses return; on all other files nothing does.
func Serve(ctx context.Context, in, out *os.File, opts Options) error {
	opts = opts.withDefaults()
	var c *connection // set before anything is written, and so before there is room again
	var output *Output
	output = newOutput(out, opts.Unread, func() (more bool) {
		if opts.Room != nil {
			opts.Room()
		}
		return c.peer.tellLast(output.littleRoom) // the calls that go on need room as well
	})
	input, restoreInput := in, func() {}
	var reader io.Reader = in
	if sameSocket(in, out) {
		// The mode is that of the socket, so the output's is the input's as well: in, which
		// may have been made before, would fail instead of waiting.
		if output.direct != nil {
			input, reader = output.file, directReader(output.file)
		}
	} else if own, restore, ok := nonblocking(in); ok {
		input, restoreInput, reader = own, restore, directReader(own)
	}

	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	c = newConnection(work, opts, output)
	c.peer.full = output.Full
	if err := opts.MCP.RegisterSession(work, c.peer); err != nil {
		stop()
		return errors.Join(fmt.Errorf("starting the session: %w", err), output.Close(0))
	}
	pumpStop, pumpDone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(pumpDone)
		c.peer.pump(pumpStop)
	}()
	if opts.Ready != nil {
		opts.Ready(c.peer)
	}

	readDone := make(chan error, 1)
	over := make(chan struct{})
	go func() {
		readDone <- c.read(newLineReader(reader, opts.MaxLine, func() { growPipe(input) }), over, func(first func()) { output.untilRoom(over, first) })
	}()
	var err error
	timeout := opts.DrainTimeout
	select {
	case err = <-readDone:
	case <-ctx.Done():
		// The client is still read while its requests drain: what it cancels
		// is cancelled, and what is new is refused.
		c.refuseNew()
	case <-output.Failed():
		c.refuseNew()
	}
	if opts.DrainLeft != nil {
		timeout = opts.DrainLeft(ctx.Err() != nil)
	}
	err = errors.Join(err, c.drain(timeout, output.Failed(), func() bool { return readerGone(output.file) }))
	c.gate.Lock() // a line that is being taken is still answered
	c.closing = true
	c.gate.Unlock()
	close(over)
	// Where the read can be interrupted it is, and its end waited for.
	if input.SetReadDeadline(time.Unix(1, 0)) == nil {
		if !c.readEnded.Load() {
			err = errors.Join(err, <-readDone)
		}
		_ = input.SetReadDeadline(time.Time{}) // worked a moment ago
	}
	restoreInput()
	stop()
	opts.MCP.UnregisterSession(work, c.peer.SessionID())
	close(pumpStop)
	<-pumpDone
	flush := flushTimeout
	if errors.Is(output.Err(), ErrNotReading) {
		flush = 0 // it had its time
	}
	if closeErr := output.Close(flush); closeErr != nil {
		opts.Log.Error("the session ended because its client cannot be written to", "session", opts.Session, "client", c.peer.GetClientInfo().Name, "error", closeErr)
		err = errors.Join(err, closeErr)
	}
	return err
}

// sameSocket tells whether two files are one socket, which is read and written: the
// two ends of a pipe, which are not, count as one file too.
func sameSocket(a, b *os.File) bool {
	infoA, errA := a.Stat()
	infoB, errB := b.Stat()
	return errA == nil && errB == nil && infoA.Mode()&fs.ModeSocket != 0 && os.SameFile(infoA, infoB)
}

// A burst is of minBurst lines at least: fewer are served sooner where each child
// begins at once. It is of maxBurst at most, so that none waits for long.
const (
	minBurst = 9
	maxBurst = 64
)

// read takes lines from the client until its input ends, or the session, which closes
// over. It calls pause before each of them, which calls its argument before it waits. Lines that
// were read together are a burst, which is over before anything is waited for.
func (c *connection) read(lines *lineReader, over <-chan struct{}, pause func(first func())) error {
	defer c.readEnded.Store(true)
	defer c.noAnswers("the client's input has ended: it cannot answer")
	var burst *messages.Burst
	end := func() {
		burst.End()
		burst = nil
	}
	defer end()
	left := 0 // that the burst may still take
	for first := true; ; first = false {
		pause(end)
		line, err := lines.next()
		c.untilListed(line, over)
		if burst == nil && lines.ahead(minBurst-1) {
			burst, left = new(messages.Burst), maxBurst
		}
		if more, err := c.take(line, first, err, lines.limit, burst); !more {
			return err
		}
		if left--; left <= 0 || !lines.ahead(1) {
			end()
		}
	}
}

// untilListed holds the reading up where a line needs what is not known yet. Where
// over is closed first, it refuses what the line asks for, and nothing is taken any more.
// No call came before such a line, so that nothing is held back for a burst.
func (c *connection) untilListed(line []byte, over <-chan struct{}) {
	if c.opts.Listed == nil {
		return
	}
	select {
	case <-c.opts.Listed:
		c.opts.Listed = nil
		return
	default:
	}
	in, err := parseIncoming(bytes.TrimPrefix(line, bom))
	switch {
	case err != nil, !in.IsRequest():
	default:
		switch in.Method {
		case "initialize", "server/discover", "ping", "tools/list":
		default:
			select {
			case <-c.opts.Listed:
				c.opts.Listed = nil
			case <-over:
				era, _ := in.era()
				e := &Entry{ID: in.ID, Era: era, passed: in.Method != methodToolsCall}
				_ = c.out.Answer(c.failure(e, errShuttingDown)) // the session ends anyway
			}
		}
	}
}

// noAnswers ends what waits for answers of the client, none of which can come.
func (c *connection) noAnswers(why string) {
	c.questions.end(why)
	c.endParked(why)
	if c.opts.InputEnded != nil {
		c.opts.InputEnded()
	}
}

// take begins what one line asks for, unless the session ends.
func (c *connection) take(line []byte, first bool, err error, limit int, burst *messages.Burst) (more bool, _ error) {
	c.gate.Lock()
	defer c.gate.Unlock()
	var long *tooLongError
	switch {
	case c.closing || errors.Is(err, io.EOF):
		return false, nil
	case errors.As(err, &long):
		c.tooLong(long, limit)
	case err != nil:
		return false, fmt.Errorf("reading from the client: %w", err)
	default:
		c.line(line, first, burst)
	}
	return true, nil
}

// tooLong tells who waits for a message that was skipped since it is longer than limit:
// who asked the client, where it was an answer, else the client.
func (c *connection) tooLong(line *tooLongError, limit int) {
	why := fmt.Sprintf("the line is longer than %d bytes, which is the most that one message may have", limit)
	if q := c.questions.take(idKey(jsonrpc.AnswerID(line.head, line.tail))); q != nil {
		noAnswer(q, "the client's answer cannot be used: "+why)
		return
	}
	refuse(c.out, jsonrpc.RequestID(line.head, line.tail), codeInvalid, why)
}
