//go:build unix

package skills

import (
	"errors"
	"syscall"
)

// openNonblock keeps an open from waiting for the writer of a pipe.
const openNonblock = syscall.O_NONBLOCK

func notFolder(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
