//go:build unix && !linux

package worker

import (
	"golang.org/x/sys/unix"

	"github.com/metamcp/metamcp/integration/sandbox"
)

// confine does what this system offers: no file may be written, none but the
// standard descriptors may be open, and no core is dumped.
func confine() sandbox.Status {
	s := sandbox.Status{Landlock: "only on Linux", Seccomp: "only on Linux", Rlimits: "on"}
	for what, most := range map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_FSIZE: 0, unix.RLIMIT_NOFILE: maxDescriptors} {
		if err := setLimit(what, most); err != nil {
			s.Rlimits = err.Error()
		}
	}
	return s
}
