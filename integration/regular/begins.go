package regular

import (
	"bytes"
	"errors"
	"io"
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
	has := make([]byte, len(start))
	n, err := io.ReadFull(f, has)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	return bytes.HasPrefix([]byte(start), has[:n]), nil
}
