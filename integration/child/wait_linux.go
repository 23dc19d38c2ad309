package child

import (
	"os"

	"golang.org/x/sys/unix"
)

// awaitExit waits for the end of the process and returns true, or returns
// false at once where that takes a thread: so does waiting for the process
// then.
//
// A descriptor of the process becomes readable at its end, so the runtime's
// poller can wait for it as for a pipe. The descriptor is our own and not the
// one that os holds: non-blocking mode would be shared with it.
func awaitExit(proc *os.Process) bool {
	fd, err := unix.PidfdOpen(proc.Pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return false // before Linux 5.10
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer func() { _ = f.Close() }()
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Read(func(fd uintptr) bool {
		set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			n, err := unix.Poll(set, 0)
			if err != unix.EINTR {
				return n != 0 || err != nil
			}
		}
	})
	return err == nil
}
