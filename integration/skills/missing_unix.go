//go:build unix

package skills

import (
	"errors"
	"syscall"
)

func notFolder(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
