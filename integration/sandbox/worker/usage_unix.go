//go:build unix

package worker

import (
	"time"

	"golang.org/x/sys/unix"
)

func now() usageNow {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return usageNow{}
	}
	return usageNow{cpu: time.Duration(u.Utime.Nano() + u.Stime.Nano())}
}
