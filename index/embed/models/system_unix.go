//go:build unix

package models

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLockFile locks an open file until it is closed; ErrBusy: another holds it.
func tryLockFile(file *os.File) error {
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrBusy
		default:
			return err
		}
	}
}

// unlockFile ends a lock and closes its file. To close it alone is not enough: a process that
// is just being started has the descriptor too, until it becomes another program, and
// whoever took the lock at once would find it held.
func unlockFile(f *os.File) error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}

func isDiskFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// syncFolder makes a rename survive a crash of the machine.
func syncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
