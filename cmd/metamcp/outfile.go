package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/metamcp/metamcp/integration/regular"
)

// outFile is a file that a command writes anew and a user names. The name may be that of
// something else by mistake, so only an empty file or an earlier one of its kind is
// replaced.
type outFile struct {
	path string
	kind string                      // what is written, for errors
	ours func(beginning []byte) bool // whether a file that begins so is of the kind
}

// check fails where write would, as far as that can be told before there is anything to
// write. It changes nothing.
func (o outFile) check() error {
	info, err := os.Stat(o.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Dir(o.path)); err != nil {
			return fmt.Errorf("write %s: %w", o.path, err)
		}
		return nil
	case err != nil:
		return err // which names the file
	case info.IsDir():
		return fmt.Errorf("%s is a folder", o.path)
	case !info.Mode().IsRegular():
		return nil // opening it may wait, or do something
	}
	return o.explained(regular.Replaceable(o.path, o.ours))
}

// write replaces the file with what the function writes, or gives that to a pipe or a
// device. Whatever the text is made of has to be read by then.
func (o outFile) write(write func(io.Writer) error) error {
	f, err := o.open()
	if err != nil {
		return o.explained(err)
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", o.path, err)
	}
	return nil
}

func (o outFile) open() (*os.File, error) {
	if info, err := os.Stat(o.path); err == nil && !info.Mode().IsRegular() {
		return os.OpenFile(o.path, os.O_WRONLY, 0)
	}
	return regular.Replace(o.path, o.ours)
}

// explained says of a file that holds something else what can be done.
func (o outFile) explained(err error) error {
	if errors.Is(err, regular.ErrForeign) {
		return fmt.Errorf("%s holds something else than %s, and nothing was written to it; give another name or remove it first", o.path, o.kind)
	}
	return err // which names the file
}
