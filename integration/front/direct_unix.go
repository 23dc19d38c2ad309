//go:build unix

package front

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/metamcp/metamcp/integration/rawio"
)

// directWriter writes to a file that does not wait, past its queue in the Go
// runtime. It is used by one goroutine at a time.
type directWriter struct {
	conn syscall.RawConn
	one  []byte
	many [][]byte
	n    int
	err  error
	try  func(fd uintptr) bool // made once, so that a write allocates nothing
}

// directReader reads a file that does not wait; see package rawio.
func directReader(file *os.File) io.Reader {
	if r, err := rawio.NewReader(file); err == nil {
		return r
	}
	return file
}

// openDirect returns a file of our own for the same pipe, a function that
// closes it and leaves the pipe as it was, and the writer; or file itself and
// no writer where writes that do not wait are not to be had.
func openDirect(file *os.File) (*os.File, func(), *directWriter) {
	own, restore, ok := nonblocking(file)
	if !ok {
		return file, func() {}, nil
	}
	conn, err := own.SyscallConn()
	if err != nil {
		restore()
		return file, func() {}, nil
	}
	w := &directWriter{conn: conn}
	w.try = func(fd uintptr) bool {
		for {
			if w.one != nil {
				w.n, w.err = rawio.Write(fd, w.one)
			} else {
				w.n, w.err = rawio.Writev(fd, w.many)
			}
			if !errors.Is(w.err, unix.EINTR) {
				return true
			}
		}
	}
	return own, restore, w
}

// write writes as much of p as the pipe takes at once. A full pipe is no
// error.
func (w *directWriter) write(p []byte) (int, error) {
	w.one = p
	return w.attempt()
}

// writev is write for the bytes of all parts, in order.
func (w *directWriter) writev(parts [][]byte) (int, error) {
	w.many = parts
	return w.attempt()
}

func (w *directWriter) attempt() (int, error) {
	w.n, w.err = 0, nil
	err := w.conn.Write(w.try)
	w.one, w.many = nil, nil
	if err == nil {
		err = w.err
	}
	if errors.Is(err, unix.EAGAIN) {
		return 0, nil
	}
	return w.n, err
}

// nonblocking returns a second file for the FIFO or socket that file is, in
// non-blocking mode and known to the runtime's poller. restore closes it and
// takes the mode back, if it was not there before. ok is false for all other
// files, and for those that standard error shares: its writers do not expect
// that mode.
func nonblocking(file *os.File) (own *os.File, restore func(), ok bool) {
	info, err := file.Stat()
	if err != nil || info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) == 0 {
		return nil, nil, false
	}
	if stderr, err := os.Stderr.Stat(); err == nil && os.SameFile(info, stderr) {
		return nil, nil, false
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return nil, nil, false
	}
	fd, was := -1, false
	_ = conn.Control(func(p uintptr) { // the error leaves fd at -1
		flags, err := unix.FcntlInt(p, unix.F_GETFL, 0)
		if err != nil {
			return
		}
		was = flags&unix.O_NONBLOCK != 0
		if fd, err = unix.FcntlInt(p, unix.F_DUPFD_CLOEXEC, 0); err != nil {
			fd = -1
		}
	})
	if fd < 0 {
		return nil, nil, false
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, nil, false
	}
	own = os.NewFile(uintptr(fd), file.Name())
	restore = func() {
		if !was {
			_ = conn.Control(func(p uintptr) { _ = unix.SetNonblock(int(p), false) }) // the file may be closed
		}
		_ = own.Close()
	}
	return own, restore, true
}
