package regular

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
)

// Begins says whether a file's first bytes are those of start, or as many of them as it
// has: whoever appends to a file that a user names asks it, so that nothing of another
// kind is written to. A file that is missing or empty begins with everything, and so
// does one that may not be read. Other errors are *fs.PathError.
func Begins(path, start string) (bool, error) {
	f, err := Open(path, os.O_RDONLY)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
		return true, nil
	case err != nil:
		return false, err
	}
	defer func() { _ = f.Close() }() // it was only read
	has, err := first(f, len(start))
	return err == nil && bytes.HasPrefix([]byte(start), has), err
}

// Appendable fails with ErrForeign where ours says of a file's first bytes, at most 4 KiB,
// that the caller did not write them: [Begins] for those whose files begin in more than
// one way. Nothing is changed. A file that is missing or empty is no failure, nor is one
// that may not be read. Errors are *fs.PathError, or several.
func Appendable(path string, ours func(beginning []byte) bool) error {
	f, err := Open(path, os.O_RDONLY)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
		return nil
	case err != nil:
		return err
	}
	return errors.Join(isOurs(f, ours), f.Close())
}
