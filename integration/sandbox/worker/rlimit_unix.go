//go:build unix

package worker

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// maxDescriptors is room for the pipes and what the runtime opens for itself.
const maxDescriptors = 16

func setLimit(what int, most uint64) error {
	if err := unix.Setrlimit(what, &unix.Rlimit{Cur: most, Max: most}); err != nil {
		return fmt.Errorf("setrlimit %d: %w", what, err)
	}
	return nil
}
