//go:build unix && !linux

package rawio

import "golang.org/x/sys/unix"

// Read reads what is there, at most len(p) bytes. EAGAIN says that there is
// nothing, 0 without an error is the end. The descriptor must be one that does
// not wait.
func Read(fd uintptr, p []byte) (int, error) {
	n, err := unix.Read(int(fd), p)
	return max(n, 0), err
}

// Write writes what fits at once, perhaps less than p. EAGAIN says that
// nothing does. The descriptor must be one that does not wait.
func Write(fd uintptr, p []byte) (int, error) {
	n, err := unix.Write(int(fd), p)
	return max(n, 0), err
}

// Writev is [Write] for the bytes of all parts, in order. Of very many parts only
// the first ones are written.
func Writev(fd uintptr, parts [][]byte) (int, error) {
	const mostParts = 1024 // that the kernel takes
	n, err := unix.Writev(int(fd), parts[:min(len(parts), mostParts)])
	return max(n, 0), err
}
