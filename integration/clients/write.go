package clients

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// content is a file as it was found.
type content struct {
	path    string // where it really is: what a link points to
	data    []byte
	info    fs.FileInfo // nil: it is not there
	private bool        // it is to be readable by its owner only
}

// readFile reads a file through links. One that is not there is no error, but
// a link to nothing is.
func readFile(path string) (*content, error) {
	c := &content{path: path}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	whole, err := filepath.EvalSymlinks(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, errors.New("it is a link to a file that is not there; make that file, or remove the link")
		}
		return nil, cause(err)
	}
	c.path = whole
	if c.info, err = os.Stat(whole); err != nil {
		return nil, cause(err)
	}
	if !c.info.Mode().IsRegular() {
		return nil, errors.New("it is no regular file") // a pipe would wait for its writer
	}
	f, err := os.Open(whole)
	if err != nil {
		return nil, cause(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	if c.data, err = io.ReadAll(io.LimitReader(f, maxFile+1)); err != nil {
		return nil, cause(err)
	}
	if len(c.data) > maxFile {
		return nil, fmt.Errorf("it is larger than %d MiB", maxFile>>20)
	}
	return c, nil
}

// readOwn is readFile for a configuration of ours.
func readOwn(path string) (*content, error) {
	c, err := readFile(path)
	if err == nil && len(c.data) > maxOwn {
		return nil, fmt.Errorf("it is larger than %d MiB, and no host reads a larger one; move servers into a file of their own, which --config names as well", maxOwn>>20)
	}
	return c, err
}

// cause is a file error without the path, which is named already.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// writable says why a file may not be written; nil: it may. It asks the mode
// and not the system, which lets root do everything.
func (c *content) writable() error {
	if c.info != nil && c.info.Mode().Perm()&0o200 == 0 {
		return fmt.Errorf("it is read-only (mode %04o); make it writable and try again", c.info.Mode().Perm())
	}
	return nil
}

// unchanged makes sure that the file still is what was read.
func (c *content) unchanged() error {
	now, err := readFile(c.path)
	if err != nil {
		return err
	}
	if (now.info == nil) != (c.info == nil) || !bytes.Equal(now.data, c.data) {
		return errors.New("another program changed it meanwhile; nothing was written, run the command again")
	}
	return nil
}

func (c *content) mode() fs.FileMode {
	switch {
	case c.info == nil:
		return 0o600
	case c.private:
		return c.info.Mode().Perm() &^ 0o077
	default:
		return c.info.Mode().Perm()
	}
}

// replace writes data so that a reader, or a crash, sees the old file or the
// new one whole. Mode and owner stay. A file with several names, or whose owner
// only it can keep, is written in place instead, with the backup as the net.
func (c *content) replace(data []byte) (err error) {
	if err := c.writable(); err != nil {
		return err
	}
	if c.info != nil && severalNames(c.info) {
		return c.overwrite(data)
	}
	f, err := os.CreateTemp(filepath.Dir(c.path), "."+filepath.Base(c.path)+".*.tmp")
	if err != nil {
		return cause(err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // what is left of it is of no use
		}
	}()
	ours := c.info == nil || keepOwner(f, c.info)
	if ours {
		if _, err = f.Write(data); err == nil {
			err = f.Sync()
		}
		if runtime.GOOS != "windows" && err == nil {
			err = f.Chmod(c.mode())
		}
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return cause(err)
	}
	if !ours {
		_ = os.Remove(f.Name())
		return c.overwrite(data)
	}
	if err := os.Rename(f.Name(), c.path); err != nil {
		_ = os.Remove(f.Name())
		if busy(err) { // a file that is mounted by itself, as in containers
			return c.overwrite(data)
		}
		return cause(err)
	}
	syncFolder(filepath.Dir(c.path))
	return nil
}

// overwrite writes into the file itself.
func (c *content) overwrite(data []byte) error {
	f, err := os.OpenFile(c.path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return cause(err)
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err == nil && c.private {
		err = f.Chmod(c.mode())
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return cause(err)
}

// syncFolder makes a rename survive a crash where the system can.
func syncFolder(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync() // Windows cannot, and the file is there all the same
		_ = d.Close()
	}
}

// makeFolders makes the folders of a file and returns those that were not
// there, the outermost first.
func makeFolders(file string) ([]string, error) {
	var missing []string
	for dir := filepath.Dir(file); !exists(dir); dir = filepath.Dir(dir) {
		missing = append([]string{dir}, missing...)
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return missing, cause(os.MkdirAll(filepath.Dir(file), 0o700))
}
