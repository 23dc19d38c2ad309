//go:build !linux

package child

import "os"

// A sentry waits for many things on one goroutine, where the system can.
type sentry struct{}

// exited says that every process needs a goroutine that waits for it.
func (*sentry) exited(*os.Process, func()) bool { return false }
