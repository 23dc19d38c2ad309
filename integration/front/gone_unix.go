//go:build unix

package front

import (
	"os"

	"golang.org/x/sys/unix"
)

// readerGone tells whether nobody can read any more what is written to a pipe
// or a socket. Of other files it does not know.
func readerGone(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(fds, 0)
		gone = err == nil && n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
	})
	return err == nil && gone
}
