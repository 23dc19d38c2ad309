package rawio

import (
	"runtime"
	"syscall"
	"unsafe"
)

// mostParts is how many parts are written at once.
const mostParts = 64

// Read reads what is there, at most len(p) bytes. EAGAIN says that there is
// nothing, 0 without an error is the end. The descriptor must be one that does
// not wait.
func Read(fd uintptr, p []byte) (int, error) { return one(syscall.SYS_READ, fd, p) }

// Write writes what fits at once, perhaps less than p. EAGAIN says that
// nothing does. The descriptor must be one that does not wait.
func Write(fd uintptr, p []byte) (int, error) { return one(syscall.SYS_WRITE, fd, p) }

// Writev is [Write] for the bytes of all parts, in order. Of very many parts only
// the first ones are written.
func Writev(fd uintptr, parts [][]byte) (int, error) {
	var vecs [mostParts]syscall.Iovec
	var last []byte
	n, size := 0, 0
	for _, p := range parts {
		if len(p) == 0 {
			continue
		}
		if n == mostParts {
			break
		}
		vecs[n].Base = &p[0]
		vecs[n].SetLen(len(p))
		n, size, last = n+1, size+len(p), p
	}
	if n < 2 {
		return Write(fd, last)
	}
	done, err := transfer(syscall.SYS_WRITEV, fd, unsafe.Pointer(&vecs[0]), n, size) //nolint:gosec // the kernel reads the vectors and the parts, which live until below
	runtime.KeepAlive(parts)
	return done, err
}

func one(call, fd uintptr, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := transfer(call, fd, unsafe.Pointer(&p[0]), len(p), len(p)) //nolint:gosec // the kernel reads or fills p, which lives until below
	runtime.KeepAlive(p)
	return n, err
}

// transfer makes a call for count of what is at a place in memory: bytes, or
// vectors of size bytes together. The caller keeps them alive.
func transfer(call, fd uintptr, at unsafe.Pointer, count, size int) (int, error) {
	var n uintptr
	var errno syscall.Errno
	if size <= largest {
		n, _, errno = syscall.RawSyscall(call, fd, uintptr(at), uintptr(count))
	} else {
		n, _, errno = syscall.Syscall(call, fd, uintptr(at), uintptr(count))
	}
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
