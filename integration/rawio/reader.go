//go:build unix

package rawio

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// Reader reads a file that does not wait. Where there is nothing it waits in
// the runtime's poller, which holds no thread. It is for one goroutine.
type Reader struct {
	conn syscall.RawConn
	p    []byte
	n    int
	err  error
	step func(fd uintptr) bool // made once, so that a read allocates nothing
}

// NewReader returns a reader of f, which must be known to the poller; f's
// deadlines and Close end a Read that waits.
func NewReader(f *os.File) (*Reader, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	r := &Reader{conn: conn}
	r.step = func(fd uintptr) bool {
		for {
			r.n, r.err = Read(fd, r.p)
			if !errors.Is(r.err, syscall.EINTR) {
				return !errors.Is(r.err, syscall.EAGAIN)
			}
		}
	}
	return r, nil
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	r.p = p
	err := r.conn.Read(r.step)
	r.p = nil
	switch {
	case err != nil:
		return 0, err
	case r.err != nil:
		return 0, os.NewSyscallError("read", r.err)
	case r.n == 0:
		return 0, io.EOF
	}
	return r.n, nil
}
