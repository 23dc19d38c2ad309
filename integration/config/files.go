package config

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/metamcp/metamcp/integration/regular"
)

// content is one file as it was read.
type content struct {
	path    string
	data    []byte
	err     error
	regular bool
}

// unread says that a file is there and could not be read, which may pass without
// a change that shows from outside.
func (c content) unread() bool { return c.err != nil && !errors.Is(c.err, fs.ErrNotExist) }

// A fileReader reads one file up to a byte more than is allowed; regular says that
// it can be read again.
type fileReader func(path string) (data []byte, regular bool, err error)

// Once keeps what could be read only once, for a program that loads its
// configuration more than once; see [Sources]. The zero value has read nothing yet.
// It may be used from any goroutine.
type Once struct {
	mu   sync.Mutex
	read map[string][]byte // by path
}

// reader is read, or what it has read before. Whoever comes while a pipe is being
// read waits for it, as its own reading would.
func (o *Once) reader(read fileReader) fileReader {
	if o == nil {
		return read
	}
	return func(path string) ([]byte, bool, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if data, ok := o.read[path]; ok {
			return data, false, nil
		}
		data, regular, err := read(path)
		if err == nil && !regular {
			if o.read == nil {
				o.read = map[string][]byte{}
			}
			o.read[path] = data
		}
		return data, regular, err
	}
}

// readAll reads the files; fixed holds those that can be read only once.
func readAll(paths []string, fixed map[string][]byte, read fileReader) []content {
	contents := make([]content, len(paths))
	for i, p := range paths {
		c := &contents[i]
		c.path = p
		if data, ok := fixed[p]; ok {
			c.data = data
			continue
		}
		c.data, c.regular, c.err = read(p)
	}
	return contents
}

// readNamed reads whatever was named.
func readNamed(path string) (data []byte, regular bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, true, err
	}
	return readOpen(f, path, func(fs.FileMode) bool { return true })
}

// readFile refuses what is no regular file, and does not wait for the writer of
// a pipe that has taken a file's place.
func readFile(path string) (data []byte, isRegular bool, err error) {
	// Opening some devices does something: those are refused unopened.
	if info, err := os.Stat(path); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil, true, notRegular(path)
	}
	f, err := regular.OpenNow(path, os.O_RDONLY)
	if err != nil {
		return nil, true, err
	}
	return readOpen(f, path, fs.FileMode.IsRegular)
}

func notRegular(path string) error {
	return &fs.PathError{Op: "read", Path: path, Err: regular.ErrNotRegular}
}

// readOpen reads and closes f.
func readOpen(f *os.File, path string, accept func(fs.FileMode) bool) (data []byte, isRegular bool, err error) {
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, true, err
	case info.IsDir():
		return nil, true, &fs.PathError{Op: "read", Path: path, Err: errors.New("it is a folder")}
	case !accept(info.Mode()):
		return nil, true, notRegular(path)
	}
	var buf bytes.Buffer
	buf.Grow(int(min(max(info.Size(), 0), maxFileSize)) + bytes.MinRead)
	_, err = buf.ReadFrom(io.LimitReader(f, maxFileSize+1))
	return buf.Bytes(), info.Mode().IsRegular(), err
}
