//go:build unix

package audit

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock locks an open file for this process, until it is closed. It does not
// wait: another holder is errLocked.
func tryLock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return errLocked
		default:
			return err
		}
	}
}

// unlock ends a lock and closes its file. To close it alone is not enough: a process that
// is just being started has the descriptor too, until it becomes another program, and
// whoever took the lock at once would find it held.
func unlock(f *os.File) error { return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close()) }
