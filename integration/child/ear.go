package child

import (
	"encoding/json"
	"errors"

	"github.com/metamcp/metamcp/messages"
)

// Ear is told what a child says and how it ends. No method may block or call
// [Process.Release]; every other method of Process may be called from within.
//
// Frame, Flush, Noise, Broken, TooLarge and EOF are called in the order of the
// stream from one goroutine, Exited from another. Calls may begin before Launch has
// returned.
type Ear interface {
	// Frame is one JSON-RPC message. The frame belongs to the receiver.
	Frame(f *messages.Frame)
	// Flush says that all complete lines of the last read were handed over;
	// it follows one or more calls of Frame, so that the receiver can write
	// what they caused at once.
	Flush()
	// Noise is a line of stdout that was no JSON-RPC message, at most 8 KiB
	// of it and marked where it was cut. It was logged already. The slice
	// belongs to the receiver.
	Noise(line []byte)
	// Broken is a line of stdout that was meant as the answer to the request
	// with this id but cannot be used; why says what is wrong. It was logged
	// already. line is its beginning, as in Noise. The slices belong to the
	// receiver.
	Broken(id json.RawMessage, line []byte, why error)
	// TooLarge says that a message over the cap was skipped. id is that of the
	// request which it answers, nil where it answers none or where the id
	// stands neither in its first nor in its last 8 KiB. It is called once for
	// each such message, as soon as the id is known, else at its end.
	TooLarge(id json.RawMessage)
	// EOF says that no more frames come. It is called exactly once. err is
	// io.EOF where the child closed its stdout, [ErrOutputHeld] or
	// [ErrWriteStalled] where we stopped listening, else the failure of a
	// pipe.
	EOF(err error)
	// Exited says that the process itself was reaped, members of its tree may
	// still live. It is called exactly once, after EOF.
	Exited(exit *messages.Exit)
}

// What Send and EOF report. They are compared with errors.Is.
var (
	// ErrBacklog: the child reads more slowly than it is written to and the
	// queue is full; nothing of the message was taken.
	ErrBacklog = errors.New("the server does not read its stdin fast enough: too many bytes are queued for it")
	// ErrWriteStalled: the child read nothing for the whole write deadline
	// although bytes were waiting; the connection is of no more use.
	ErrWriteStalled = errors.New("the server has stopped reading its stdin")
	// ErrInputClosed: CloseInput or Release came before the message.
	ErrInputClosed = errors.New("the server's stdin is closed")
	// ErrOutputHeld: the process exited and another process of its tree keeps
	// its stdout open.
	ErrOutputHeld = errors.New("the server exited while a process that it started keeps its stdout open")
)
