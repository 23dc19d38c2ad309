package regular

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// ErrForeign is what a file is refused with that holds something else than its writer writes.
var ErrForeign = errors.New("it holds something else")

// beginning is how much of a file says what it is: enough for the head of a page.
const beginning = 4 << 10

// Replace opens a regular file to be written anew, which is made with the mode 0600 where
// there is none. What a user names may be the wrong file: it is emptied only where ours
// says of its first bytes, at most 4 KiB, that the caller wrote them, and is left as it is
// otherwise, with ErrForeign. Errors are *fs.PathError, or several.
func Replace(path string, ours func(beginning []byte) bool) (*os.File, error) {
	f, err := Open(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	// Of the open file: another may have taken its name.
	if err = isOurs(f, ours); err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Replaceable fails as [Replace] would, and changes nothing. A file that is missing is
// no failure.
func Replaceable(path string, ours func(beginning []byte) bool) error {
	f, err := Open(path, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(isOurs(f, ours), f.Close())
}

// isOurs fails where something stands in a file that is not ours.
func isOurs(f *os.File, ours func(beginning []byte) bool) error {
	has, err := first(f, beginning)
	if err == nil && len(has) > 0 && !ours(has) {
		err = &fs.PathError{Op: "write", Path: f.Name(), Err: ErrForeign}
	}
	return err
}

// first reads the first bytes of a file, at most so many.
func first(f *os.File, most int) ([]byte, error) {
	has := make([]byte, most)
	n, err := io.ReadFull(f, has)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return has[:n], err
}
