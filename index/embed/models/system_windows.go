package models

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// tryLockFile locks an open file until it is closed; ErrBusy: another holds it.
func tryLockFile(file *os.File) error {
	err := windows.LockFileEx(windows.Handle(file.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrBusy
	}
	return err
}

// unlockFile ends a lock and closes its file.
func unlockFile(f *os.File) error { return f.Close() }

func isDiskFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}

// syncFolder has nothing to do: Windows has no such thing.
func syncFolder(string) error { return nil }
