package openfds

import (
	"errors"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// descriptors are two ends of a pipe, one of them above 500.
func descriptors(t *testing.T) (high, low int) {
	t.Helper()
	var fds [2]int
	if err := syscall.Pipe(fds[:]); err != nil {
		t.Fatal(err)
	}
	high, err := unix.FcntlInt(uintptr(fds[0]), unix.F_DUPFD, 500)
	_ = syscall.Close(fds[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Close(high) // a test may have closed it
		_ = syscall.Close(fds[1])
	})
	return high, fds[1]
}

// What the host has left open by mistake is closed.
func TestCloseFrom(t *testing.T) {
	high, low := descriptors(t)
	CloseFrom(400)
	if _, err := unix.FcntlInt(uintptr(high), unix.F_GETFD, 0); !errors.Is(err, syscall.EBADF) {
		t.Errorf("descriptor %d: %v", high, err)
	}
	if _, err := unix.FcntlInt(uintptr(low), unix.F_GETFD, 0); err != nil {
		t.Errorf("a descriptor below: %v", err)
	}
}

// What the host has inherited is not passed on to what it starts.
func TestCloseOnExec(t *testing.T) {
	for name, mark := range map[string]func(int){"at once": CloseOnExec, "one by one": markEach} {
		t.Run(name, func(t *testing.T) {
			high, low := descriptors(t)
			mark(400)
			for fd, want := range map[int]int{high: unix.FD_CLOEXEC, low: 0} {
				if got, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || got != want {
					t.Errorf("descriptor %d: %d, %v, want %d", fd, got, err, want)
				}
			}
		})
	}
}
