package store

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
)

// What may be wrong with a store. Errors of this package are *Error and wrap
// one of these where it fits; compare with errors.Is.
var (
	// ErrLocked: another process uses the folder. Try again later.
	ErrLocked = errors.New("another process uses it")
	// ErrNewer: a newer program wrote it. Nothing in it was touched.
	ErrNewer = errors.New("it was written by a newer version of this program")
	// ErrForeign: what is in the folder's place is not a store. It was not
	// touched.
	ErrForeign = errors.New("what is there does not belong to this program")
	// ErrPermission: the file system refuses access.
	ErrPermission = errors.New("access is refused")
	// ErrReadOnly: the file system is mounted read-only.
	ErrReadOnly = errors.New("the file system is read-only")
	// ErrDiskFull: there is not enough free space to write safely. Nothing was
	// written; reads work, and writes will when there is room.
	ErrDiskFull = errors.New("not enough free disk space")
	// ErrBroken: badger failed, or the folder was deleted or replaced. Close
	// the store and open it again.
	ErrBroken = errors.New("the store does not work any more and must be opened again")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the store is closed")
)

// Error says what was being done to which store, what failed, and what to do.
type Error struct {
	Op   string // "open", "write vectors", …
	Path string // the store's folder
	Err  error
	Hint string // what to do about it, or ""
}

// Error implements error.
func (e *Error) Error() string {
	s := fmt.Sprintf("index store %s: %s: %v", e.Path, e.Op, e.Err)
	if e.Hint != "" {
		s += ". " + e.Hint
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// hints says what to do about each kind of failure.
var hints = map[error]string{
	ErrNewer:      "Update this program, or delete the folder",
	ErrForeign:    "Move it away, or set another state folder",
	ErrPermission: "Give this user the folder, or set another state folder",
	ErrReadOnly:   "Set a state folder on a writable file system",
	ErrDiskFull:   "Free some space",
}

// fail makes an *Error of err, which may be nil.
func fail(op, path string, err error) error {
	if err == nil {
		return nil
	}
	var known *Error
	if errors.As(err, &known) {
		return err
	}
	err = classify(err)
	e := &Error{Op: op, Path: path, Err: err}
	for kind, hint := range hints {
		if errors.Is(err, kind) {
			e.Hint = hint
		}
	}
	return e
}

// systemFailures are failures of the system rather than of the data. Badger
// flattens most errors into text, so the text must do.
var systemFailures = []struct {
	errno syscall.Errno
	kind  error
}{
	{syscall.ENOSPC, ErrDiskFull},
	{syscall.EROFS, ErrReadOnly},
	{syscall.EACCES, ErrPermission},
	{syscall.EPERM, ErrPermission},
	{syscall.EMFILE, nil},
	{syscall.ENFILE, nil},
	{syscall.ENOMEM, nil},
	{syscall.EIO, nil},
}

// classify wraps the sentinel that fits.
func classify(err error) error {
	for kind := range hints {
		if errors.Is(err, kind) {
			return err
		}
	}
	if errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%w: %w", ErrPermission, err)
	}
	for _, f := range systemFailures {
		if f.kind != nil && (errors.Is(err, f.errno) || strings.Contains(err.Error(), f.errno.Error())) {
			return fmt.Errorf("%w: %w", f.kind, err)
		}
	}
	return err
}

// ofSystem says that the system failed, which is no reason to give up data.
func ofSystem(err error) bool {
	for _, f := range systemFailures {
		if errors.Is(err, f.errno) || strings.Contains(err.Error(), f.errno.Error()) {
			return true
		}
	}
	return errors.Is(err, ErrDiskFull)
}
