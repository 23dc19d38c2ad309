//go:build unix

package worker

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is what the process has used of the processors so far; 0 where that is not
// known.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
