//go:build unix

package worker

import (
	"io"
	"os"
	"syscall"

	"github.com/metamcp/metamcp/integration/rawio"
)

// pollable is the pipe as the runtime's poller knows it: the thread that waits
// for a reply then runs the script as well. One that blocks in the read would
// have to wake another for that.
func pollable(f *os.File) *os.File {
	if syscall.SetNonblock(int(f.Fd()), true) != nil {
		return f
	}
	return os.NewFile(f.Fd(), f.Name())
}

// fastReader reads a pollable pipe; see package rawio.
func fastReader(f *os.File) io.Reader {
	if r, err := rawio.NewReader(f); err == nil {
		return r
	}
	return f
}

// fastWriter writes to a pollable pipe.
func fastWriter(f *os.File) io.Writer {
	if w, err := rawio.NewWriter(f); err == nil {
		return w
	}
	return f
}
