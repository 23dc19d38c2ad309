// Package plainfile opens and reads regular files of the state folder and nothing
// else: to open a pipe would wait for its other end for ever.
package plainfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// errNot is what anything but a regular file is refused with.
var errNot = errors.New("it is no regular file; move it away")

// Open is os.OpenFile for a regular file, or for none where flags make one, with the
// mode 0600. Links are followed. Errors are *fs.PathError.
func Open(path string, flags int) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errNot}
	}
	return os.OpenFile(path, flags, 0o600)
}

// Read reads a regular file, of which it takes the first most bytes at most.
func Read(path string, most int64) ([]byte, error) {
	f, err := Open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(f, most))
}

// Write replaces what is in a regular file, or makes it.
func Write(path string, text []byte) error {
	f, err := Open(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
