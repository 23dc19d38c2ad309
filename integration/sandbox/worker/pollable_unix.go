//go:build unix

package worker

import (
	"os"
	"syscall"
)

// pollable is the pipe as the runtime's poller reads it: the thread that waits
// for a reply then runs the script as well. One that blocks in the read would
// have to wake another for that.
func pollable(f *os.File) *os.File {
	if syscall.SetNonblock(int(f.Fd()), true) != nil {
		return f
	}
	return os.NewFile(f.Fd(), f.Name())
}
