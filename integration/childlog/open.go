package childlog

import (
	"errors"
	"io/fs"
	"os"
)

// OpenAppend opens a file to append to, or makes it. It does not wait: a pipe
// that nobody reads is an error.
func OpenAppend(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|openNonblock, 0o600)
}

// openRegular is OpenAppend for regular files alone: a write to anything else
// may block, and here the child's reader would wait for it.
func openRegular(path string) (*os.File, error) {
	f, err := OpenAppend(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("it is no regular file")}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
