package openfds

import (
	"errors"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// What the host has left open by mistake is closed.
func TestCloseFrom(t *testing.T) {
	var fds [2]int
	if err := syscall.Pipe(fds[:]); err != nil {
		t.Fatal(err)
	}
	high, err := unix.FcntlInt(uintptr(fds[0]), unix.F_DUPFD, 500)
	if err != nil {
		t.Fatal(err)
	}
	CloseFrom(400)
	if _, err := unix.FcntlInt(uintptr(high), unix.F_GETFD, 0); !errors.Is(err, syscall.EBADF) {
		t.Errorf("descriptor %d: %v", high, err)
	}
	if _, err := unix.FcntlInt(uintptr(fds[1]), unix.F_GETFD, 0); err != nil {
		t.Errorf("a descriptor below: %v", err)
	}
	_ = syscall.Close(fds[0])
	_ = syscall.Close(fds[1])
}

// What the host has inherited is not passed on to what it starts.
func TestCloseOnExec(t *testing.T) {
	for name, mark := range map[string]func(int){"at once": CloseOnExec, "one by one": markEach} {
		t.Run(name, func(t *testing.T) {
			var fds [2]int
			if err := syscall.Pipe(fds[:]); err != nil {
				t.Fatal(err)
			}
			high, err := unix.FcntlInt(uintptr(fds[0]), unix.F_DUPFD, 500)
			if err != nil {
				t.Fatal(err)
			}
			mark(400)
			for fd, want := range map[int]int{high: unix.FD_CLOEXEC, fds[1]: 0} {
				if got, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || got != want {
					t.Errorf("descriptor %d: %d, %v, want %d", fd, got, err, want)
				}
				_ = syscall.Close(fd)
			}
			_ = syscall.Close(fds[0])
		})
	}
}
