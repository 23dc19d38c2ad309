//go:build !linux

package child

import (
	"errors"
	"os"
)

// A sentry waits for many things on one goroutine, where the system can.
type sentry struct{}

// await says that a goroutine has to wait for every descriptor.
func (*sentry) await(int, func()) error { return errors.ErrUnsupported }

// forget has nothing to take back.
func (*sentry) forget(int) bool { return false }

// exited says that every process needs a goroutine that waits for it.
func (*sentry) exited(*os.Process, func()) bool { return false }
