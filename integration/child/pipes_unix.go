//go:build unix

package child

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/metamcp/metamcp/integration/rawio"
)

// pipeWriter writes several pieces with one system call. One goroutine at a
// time may use it.
type pipeWriter struct {
	raw   syscall.RawConn
	parts [][]byte
	block bool
	n     int
	err   error
	step  func(fd uintptr) bool // made once: a closure for each write would be garbage
}

func newPipeWriter(f *os.File) (*pipeWriter, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	w := &pipeWriter{raw: raw}
	w.step = w.once
	return w, nil
}

func (w *pipeWriter) once(fd uintptr) bool {
	for {
		w.n, w.err = rawio.Writev(fd, w.parts)
		switch {
		case errors.Is(w.err, unix.EINTR):
			continue
		case errors.Is(w.err, unix.EAGAIN):
			w.n, w.err = 0, nil
			return !w.block
		}
		return true
	}
}

func (w *pipeWriter) do(parts [][]byte, block bool) (int, error) {
	w.parts, w.block, w.n, w.err = parts, block, 0, nil
	err := w.raw.Write(w.step)
	w.parts = nil
	if err == nil {
		err = w.err
	}
	return w.n, err
}

// try writes what the pipe takes at once, which may be nothing.
func (w *pipeWriter) try(parts [][]byte) (int, error) { return w.do(parts, false) }

// wait writes what the pipe takes, but waits until that is something or the
// file's write deadline passes.
func (w *pipeWriter) wait(parts [][]byte) (int, error) { return w.do(parts, true) }

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

// isCut reports whether a read ended because we wanted it to.
func isCut(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed)
}
