package child

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
)

// pipeWriter writes to an anonymous pipe, which knows no waiting-free writes
// here: everything goes through the queue.
type pipeWriter struct{ out *output }

func newPipeWriter(o *output) (*pipeWriter, error) { return &pipeWriter{out: o}, nil }

func (w *pipeWriter) try([][]byte) (int, error) { return 0, nil }

// wait writes the first piece of the queue, which counts as written from then on: nobody
// knows how much of it is while the call lasts.
func (w *pipeWriter) wait() error {
	o := w.out
	o.mu.Lock()
	var piece []byte
	if parts := o.front(); len(parts) > 0 {
		piece = parts[0]
		o.consume(len(piece))
	}
	o.mu.Unlock()
	_, err := o.file.Write(piece)
	return err
}

// pipeReader returns a function that reads into room(). It returns 0 and no
// error at the end of the stream.
func pipeReader(f *os.File, room func() []byte, _ func(int) bool) (func() (int, error), error) {
	return func() (int, error) {
		n, err := f.Read(room())
		if n > 0 || errors.Is(err, io.EOF) {
			return n, nil
		}
		return 0, err
	}, nil
}

// readNow reads nothing: what is cut here was closed.
func readNow(*os.File, []byte) (int, error) { return 0, os.ErrClosed }

// unread is not known here.
func unread(*os.File, *atomic.Bool) bool { return false }

// isCut reports whether a read ended because we wanted it to.
func isCut(err error) bool { return errors.Is(err, os.ErrClosed) }
