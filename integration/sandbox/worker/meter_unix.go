//go:build unix && !linux

package worker

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// meter tells how large the process is. It may be used from several goroutines.
type meter struct{}

func newMeter() *meter { return &meter{} }

// resident is the largest size so far: what the process is now is not told
// without help of its owner.
func (*meter) resident() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return int64(u.Maxrss) //nolint:unconvert // its type differs between systems
	}
	return int64(u.Maxrss) << 10 //nolint:unconvert // as above
}

// wakeMonitor is for systems where package rawio has no calls that the runtime does not
// know of.
func wakeMonitor() {}

// goFirst is for systems that have a way to ask for it.
func goFirst() {}
