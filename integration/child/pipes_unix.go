//go:build unix

package child

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/metamcp/metamcp/integration/rawio"
)

// pipeWriter writes several pieces with one system call. One goroutine at a
// time may use it.
type pipeWriter struct {
	out   *output
	raw   syscall.RawConn
	parts [][]byte
	n     int
	err   error
	// once and front are made once: a closure for each write would be garbage.
	once, front func(fd uintptr) bool
}

func newPipeWriter(o *output) (*pipeWriter, error) {
	raw, err := o.file.SyscallConn()
	if err != nil {
		return nil, err
	}
	w := &pipeWriter{out: o, raw: raw}
	w.once, w.front = w.writeParts, w.writeFront
	return w, nil
}

func (w *pipeWriter) writeParts(fd uintptr) bool {
	w.n, w.err = writeOnce(fd, w.parts)
	return true
}

func (w *pipeWriter) writeFront(fd uintptr) bool {
	w.out.mu.Lock()
	defer w.out.mu.Unlock()
	parts := w.out.front()
	if len(parts) == 0 {
		return true
	}
	w.n, w.err = writeOnce(fd, parts)
	w.out.consume(w.n)
	return w.n > 0 || w.err != nil
}

// writeOnce writes what the pipe takes at once, which may be nothing.
func writeOnce(fd uintptr, parts [][]byte) (int, error) {
	for {
		n, err := rawio.Writev(fd, parts)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return 0, nil
		}
		return n, err
	}
}

// try writes what the pipe takes at once, which may be nothing.
func (w *pipeWriter) try(parts [][]byte) (int, error) {
	w.parts, w.n, w.err = parts, 0, nil
	err := w.raw.Write(w.once)
	w.parts = nil
	if err == nil {
		err = w.err
	}
	return w.n, err
}

// wait writes what the pipe takes of what is at the front of the queue, but waits until
// that is something or the file's write deadline passes. The queue is locked while it is
// written from, and only then, so that it always says what was not written.
func (w *pipeWriter) wait() error {
	w.err = nil
	if err := w.raw.Write(w.front); err != nil {
		return err
	}
	return w.err
}

// pipeReader returns a function that waits until f can be read and reads into
// room(). While it waits, idle has been called and no buffer is needed; where idle
// says that somebody else waits, it returns errLater at once. It returns 0 and no
// error at the end of the stream.
func pipeReader(f *os.File, room func() []byte, idle func(fd int) (later bool)) (func() (int, error), error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var n int
	var rerr error
	step := func(fd uintptr) bool {
		for {
			n, rerr = rawio.Read(fd, room())
			switch {
			case errors.Is(rerr, unix.EINTR):
				continue
			case errors.Is(rerr, unix.EAGAIN):
				if !idle(int(fd)) {
					return false
				}
				rerr = errLater
			}
			return true
		}
	}
	return func() (int, error) {
		if err := raw.Read(step); err != nil {
			return 0, err
		}
		return max(n, 0), rerr
	}, nil
}

// readNow reads what is in a pipe, also where its deadline is over; EAGAIN says that
// there is nothing. It returns 0 and no error at the end of the stream.
func readNow(f *os.File, room []byte) (n int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	closed := raw.Control(func(fd uintptr) {
		for {
			if n, err = rawio.Read(fd, room); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
	return n, errors.Join(closed, err)
}

// unread reports whether something waits in a pipe to be read, be that its end, or was
// taken out by a reader who is not done with it.
func unread(f *os.File, taken *atomic.Bool) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	fds := []unix.PollFd{{Events: unix.POLLIN}}
	if closed := raw.Control(func(fd uintptr) {
		fds[0].Fd = int32(fd)
		_, err = unix.Poll(fds, 0)
	}); closed != nil {
		return false
	}
	// Who reads says so before: what the pipe does not have any more is his.
	return err == nil && fds[0].Revents&(unix.POLLIN|unix.POLLHUP) != 0 || taken.Load()
}

// isCut reports whether a read ended because we wanted it to.
func isCut(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed)
}
