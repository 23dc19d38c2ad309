//go:build unix && !linux

package openfds

import (
	"os"
	"strconv"
	"syscall"
)

// CloseOnExec keeps the descriptors from first on from the programs that this process
// starts; the process itself has them still. Those that it hands to one of them are not
// meant, since they are copied for it. It is for a program's main, not for a library:
// what a program inherited may be for its children.
func CloseOnExec(first int) {
	dir, err := os.Open("/dev/fd")
	if err != nil {
		return
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil && fd >= first {
			syscall.CloseOnExec(fd)
		}
	}
}
