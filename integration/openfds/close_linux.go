package openfds

import (
	"strconv"
	"strings"
	"syscall"
)

// CloseFrom closes the descriptors from first on: what the host inherited and
// did not mark must not be held open by a helper of it. Those of the kernel's own
// kind are left, since the runtime's poller is among them. Call it before anything
// else of the process opens one.
func CloseFrom(first int) {
	const dir = "/proc/self/fd"
	list, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
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
	link := make([]byte, 64)
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd < first || fd == list {
			continue
		}
		n, err := syscall.Readlink(dir+"/"+name, link)
		if err == nil && !strings.HasPrefix(string(link[:n]), "anon_inode:") {
			_ = syscall.Close(fd)
		}
	}
}
