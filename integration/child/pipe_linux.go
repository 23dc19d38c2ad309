package child

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// pipe makes a pipe of which we read (ourRead) or write, non-blocking at our
// end only.
func pipe(ourRead bool) (r, w *os.File, err error) {
	var fd [2]int
	if err := unix.Pipe2(fd[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	ours := fd[1]
	if ourRead {
		ours = fd[0]
	}
	if err := unix.SetNonblock(ours, true); err != nil {
		_, _ = unix.Close(fd[0]), unix.Close(fd[1])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd[0]), "|0"), os.NewFile(uintptr(fd[1]), "|1"), nil
}

// pipeBudget bounds how much larger we make pipes. The kernel gives each user
// 64 MiB of pipe buffers; beyond that every new pipe of that user shrinks to
// two pages, so the bulk is left to others.
type pipeBudget struct {
	mu   sync.Mutex
	used int
}

const (
	widePipe = 1 << 20
	budget   = 16 << 20
)

// grow makes the pipe behind f as large as users may. It reports how many
// bytes to give back; failure costs only speed.
func (b *pipeBudget) grow(f *os.File) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used+widePipe > budget {
		return 0
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	grown := false
	err = raw.Control(func(fd uintptr) {
		_, err := unix.FcntlInt(fd, unix.F_SETPIPE_SZ, widePipe)
		grown = err == nil
	})
	if err != nil || !grown {
		return 0
	}
	b.used += widePipe
	return widePipe
}

func (b *pipeBudget) giveBack(n int) {
	b.mu.Lock()
	b.used -= n
	b.mu.Unlock()
}
