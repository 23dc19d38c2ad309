//go:build unix

package rawio

import (
	"errors"
	"os"
	"syscall"
)

// Writer writes to a file that does not wait. What does not fit at once waits
// in the runtime's poller, which holds no thread. It is for one goroutine at a
// time.
type Writer struct {
	conn syscall.RawConn
	p    []byte
	err  error
	step func(fd uintptr) bool // made once, so that a write allocates nothing
}

// NewWriter returns a writer to f, which must be known to the poller; f's
// deadlines and Close end a Write that waits.
func NewWriter(f *os.File) (*Writer, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	w := &Writer{conn: conn}
	w.step = func(fd uintptr) bool {
		for {
			n, err := Write(fd, w.p)
			w.p = w.p[max(n, 0):]
			switch {
			case errors.Is(err, syscall.EINTR):
			case errors.Is(err, syscall.EAGAIN):
				return false
			case err != nil || len(w.p) == 0:
				w.err = err
				return true
			}
		}
	}
	return w, nil
}

// Write implements io.Writer: it writes all of p.
func (w *Writer) Write(p []byte) (int, error) {
	w.p, w.err = p, nil
	err := w.conn.Write(w.step)
	n := len(p) - len(w.p)
	w.p = nil
	if err == nil && w.err != nil {
		err = os.NewSyscallError("write", w.err)
	}
	return n, err
}
