// Package rotate lets a log file begin anew: FILE becomes FILE.1, FILE.1 becomes
// FILE.2. Several processes may append to one file; each that finds it large
// calls [File], and it is rotated once.
package rotate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/metamcp/metamcp/integration/lockedfile"
)

// ErrHeld says that another process has held the lock for longer than renaming
// a few files takes. Nothing was changed.
var ErrHeld = errors.New("another process holds its lock")

// wait is how long the lock is waited for. It is held during a few renamings.
const wait = 2 * time.Second

// File renames the file at path and those before it, of which it keeps the number
// keep. opened is what the caller has written to and has closed: where path is
// another file by now, or none, somebody else has rotated it and nothing is done.
// The caller then opens path anew. The lock is the file path + ".lock". File is
// safe for any goroutine of any process.
func File(path string, opened fs.FileInfo, keep int) (err error) {
	lock, err := lockedfile.New(path + ".lock")
	if err != nil {
		return fmt.Errorf("rotate %s: %w", path, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	switch held, err := lock.TryLockContext(ctx, 2*time.Millisecond); {
	case ctx.Err() != nil && !held:
		return fmt.Errorf("rotate %s: %w: %s", path, ErrHeld, lock.Path())
	case err != nil:
		return fmt.Errorf("rotate %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if !Is(path, opened) {
		return nil
	}
	for i := keep; i > 1; i-- {
		_ = os.Rename(path+"."+strconv.Itoa(i-1), path+"."+strconv.Itoa(i)) // there may be none
	}
	if err := os.Rename(path, path+".1"); err != nil {
		return fmt.Errorf("rotate %s: %w", path, err)
	}
	return nil
}

// Is reports whether path still is the file that was opened. Who has a file open
// for long asks this now and then, or it writes to one that others have put away.
func Is(path string, opened fs.FileInfo) bool {
	there, err := os.Stat(path)
	return err == nil && os.SameFile(opened, there)
}
