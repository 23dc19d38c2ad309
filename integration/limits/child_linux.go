package limits

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/metamcp/metamcp/messages"
)

// ApplyTo bounds a process that was just started, and what it starts from now on:
// each of them by itself, and their memory only where no group does. It fails where the
// system does not bound it.
func ApplyTo(pid int, l messages.Limits, group *Group) error {
	set := func(what string, resource int, soft, hard uint64) error {
		if err := unix.Prlimit(pid, resource, &unix.Rlimit{Cur: soft, Max: hard}, nil); err != nil {
			return fmt.Errorf("limits.%s could not be set: %w", what, err)
		}
		return nil
	}
	if l.MemoryMB > 0 && group == nil {
		// Not the address space: programs reserve much more of it than they use.
		n := uint64(l.MemoryMB) << 20
		if err := set("memoryMB", unix.RLIMIT_DATA, n, n); err != nil {
			return err
		}
	}
	if l.CPUSeconds > 0 {
		const grace = 5 // seconds from SIGXCPU to SIGKILL
		n := uint64(l.CPUSeconds)
		return set("cpuSeconds", unix.RLIMIT_CPU, n, n+grace)
	}
	return nil
}
