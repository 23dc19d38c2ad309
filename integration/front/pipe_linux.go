package front

import (
	"os"

	"golang.org/x/sys/unix"
)

// pipeSize is what a pipe is enlarged to once a large line has passed, so that
// the next one needs few changes between writer and reader. It is the limit
// that the kernel sets for ordinary users.
const pipeSize = 1 << 20

// growPipe enlarges the pipe. It is only for speed: on anything else than a
// pipe, or without the right to do so, nothing happens.
func growPipe(file *os.File) {
	conn, err := file.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
}
