//go:build unix

package front

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// TakeStdout keeps standard output for the protocol alone. It returns a file
// for what is standard output now, which child processes do not inherit, and
// points file descriptor 1 and [os.Stdout] at standard error, so that nothing
// that any library prints can break the stream. Call it once, before other
// goroutines run.
func TakeStdout() (*os.File, error) {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("keeping standard output for the protocol: %w; is it closed?", err)
	}
	if err := dup2(2, 1); err != nil {
		// Without a standard error, what libraries print goes nowhere.
		null, openErr := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		if openErr == nil {
			err = dup2(int(null.Fd()), 1)
			_ = null.Close()
		}
		if err != nil {
			_ = unix.Close(fd)
			return nil, fmt.Errorf("pointing standard output at standard error: %w", err)
		}
	}
	os.Stdout = os.Stderr //nolint:forbidigo // this is where it is taken from everybody else
	return os.NewFile(uintptr(fd), "stdout"), nil
}
