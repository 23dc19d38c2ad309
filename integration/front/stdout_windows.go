package front

import (
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// TakeStdout keeps standard output for the protocol alone. It returns a file
// for what is standard output now, which child processes do not inherit, and
// points the standard output handle and [os.Stdout] at standard error, so that
// nothing that any library prints can break the stream. Call it once, before
// other goroutines run.
func TakeStdout() (*os.File, error) {
	old, err := windows.GetStdHandle(windows.STD_OUTPUT_HANDLE)
	if err != nil {
		return nil, fmt.Errorf("keeping standard output for the protocol: %w; is it closed?", err)
	}
	var own windows.Handle
	self := windows.CurrentProcess()
	if err := windows.DuplicateHandle(self, old, self, &own, 0, false, windows.DUPLICATE_SAME_ACCESS); err != nil {
		return nil, fmt.Errorf("keeping standard output for the protocol: %w; is it closed?", err)
	}
	stderr, err := windows.GetStdHandle(windows.STD_ERROR_HANDLE)
	if err == nil {
		err = windows.SetStdHandle(windows.STD_OUTPUT_HANDLE, stderr)
	}
	if err != nil {
		_ = windows.CloseHandle(own)
		return nil, fmt.Errorf("pointing standard output at standard error: %w", err)
	}
	os.Stdout = os.Stderr //nolint:forbidigo // this is where it is taken from everybody else
	return os.NewFile(uintptr(own), "stdout"), nil
}
