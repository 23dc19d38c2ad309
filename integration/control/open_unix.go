//go:build unix

package control

import (
	"os"
	"syscall"
)

// openShared opens a file to read. It does not wait for the writer of a pipe.
func openShared(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}
