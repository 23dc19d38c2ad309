// Package regular opens and reads regular files and nothing else. What stands in a folder
// may have been put there by anybody: opening a pipe waits for its other end,
// and opening some devices does something.
package regular

import (
	"errors"
	"io/fs"
	"os"
)

// ErrNotRegular is what a file is refused with that is a folder, a pipe, a
// socket or a device.
var ErrNotRegular = errors.New("it is no regular file")

// Open opens a regular file without ever waiting, with flags as os.OpenFile has
// them; one that is made gets the mode 0600. Links are followed. Errors are
// *fs.PathError.
func Open(path string, flags int) (*os.File, error) {
	refused := &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, refused
	}
	f, err := OpenNow(path, flags)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat() // another may have taken its place
	if err == nil && !info.Mode().IsRegular() {
		err = refused
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// OpenNow is Open for whatever is there: a pipe without another end is an error
// or is empty, as the system has it.
func OpenNow(path string, flags int) (*os.File, error) {
	return os.OpenFile(path, flags|nonblock, 0o600)
}
