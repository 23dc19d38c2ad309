package rawio

import (
	"runtime"
	"syscall"
	"unsafe"
)

// Read reads what is there, at most len(p) bytes. EAGAIN says that there is
// nothing, 0 without an error is the end. The descriptor must be one that does
// not wait.
func Read(fd uintptr, p []byte) (int, error) { return transfer(syscall.SYS_READ, fd, p) }

// Write writes what fits at once, perhaps less than p. EAGAIN says that
// nothing does. The descriptor must be one that does not wait.
func Write(fd uintptr, p []byte) (int, error) { return transfer(syscall.SYS_WRITE, fd, p) }

func transfer(call, fd uintptr, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	var n uintptr
	var errno syscall.Errno
	if len(p) <= largest {
		n, _, errno = syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p))) //nolint:gosec // the kernel reads or fills p, which lives until below
	} else {
		n, _, errno = syscall.Syscall(call, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p))) //nolint:gosec // as above
	}
	runtime.KeepAlive(p)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
