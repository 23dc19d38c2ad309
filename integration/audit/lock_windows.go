package audit

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// tryLock locks an open file for this process, until it is closed. It does not
// wait: another holder is errLocked.
func tryLock(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errLocked
	}
	return err
}

// unlock ends a lock and closes its file.
func unlock(f *os.File) error { return f.Close() }
