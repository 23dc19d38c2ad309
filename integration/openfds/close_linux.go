package openfds

import (
	"math"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const ownDir = "/proc/self/fd"

// CloseFrom closes the descriptors from first on: what the host inherited and
// did not mark must not be held open by a helper of it. Those of the kernel's own
// kind are left, since the runtime's poller is among them. Call it before anything
// else of the process opens one.
func CloseFrom(first int) {
	link := make([]byte, 64)
	each(first, func(fd int, name string) {
		n, err := syscall.Readlink(ownDir+"/"+name, link)
		if err == nil && !strings.HasPrefix(string(link[:n]), "anon_inode:") {
			_ = syscall.Close(fd)
		}
	})
}

// CloseOnExec keeps the descriptors from first on from the programs that this process
// starts; the process itself has them still. Those that it hands to one of them are not
// meant, since they are copied for it. It is for a program's main, not for a library:
// what a program inherited may be for its children.
func CloseOnExec(first int) {
	if unix.CloseRange(uint(first), math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) != nil {
		markEach(first) // Linux before 5.11, or a filter of system calls
	}
}

func markEach(first int) { each(first, func(fd int, _ string) { syscall.CloseOnExec(fd) }) }

// each calls f for the descriptors that are open from first on.
func each(first int, f func(fd int, name string)) {
	list, err := syscall.Open(ownDir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer func() { _ = syscall.Close(list) }()
	var names []string
	buf := make([]byte, 4096)
	for {
		n, err := syscall.ReadDirent(list, buf)
		if err != nil || n <= 0 {
			break
		}
		_, _, names = syscall.ParseDirent(buf[:n], -1, names)
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil && fd >= first && fd != list {
			f(fd, name)
		}
	}
}
