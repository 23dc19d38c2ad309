package traceview

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// siblings is the highest number of a rotated file.
const siblings = 9

// ReadFiles reads the trace at path with its rotated siblings, oldest first:
// path.9 to path.1, each also with ".gz", then path itself. Path itself may be
// gone, and it may be compressed. It fails where none of them is there, with
// an error that is [fs.ErrNotExist], and where they hold no record.
func ReadFiles(path string, limits Limits) (*Trace, error) {
	files := existing(path)
	if len(files) == 0 {
		return nil, fmt.Errorf("there is no trace %s, nor a rotated one (%s.1 to %s.%d, or those with .gz): %w", path, path, path, siblings, fs.ErrNotExist)
	}
	b := NewBuilder(limits)
	var failed []error
	for _, file := range files {
		name := ""
		if len(files) > 1 {
			name = clean(filepath.Base(file), maxName)
		}
		if err := b.readFile(file, name); err != nil {
			failed = append(failed, err)
			b.problems.notes = append(b.problems.notes, clean(err.Error(), maxDetail))
		}
	}
	if len(failed) == len(files) {
		return nil, errors.Join(failed...)
	}
	return b.finish(path)
}

// existing lists path and its siblings, oldest first. Where a file is there
// both ways, its compressed form is taken for the copy that is being made.
func existing(path string) []string {
	var files []string
	for n := siblings; n >= 0; n-- {
		base := path
		if n > 0 {
			base += "." + strconv.Itoa(n)
		}
		names := []string{base}
		if n > 0 {
			names = append(names, base+".gz")
		}
		for _, name := range names {
			if info, err := os.Stat(name); err == nil && !info.IsDir() {
				files = append(files, name)
				break
			}
		}
	}
	return files
}

func (b *Builder) readFile(path, name string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	r := bufio.NewReader(f)
	if magic, err := r.Peek(2); err != nil || magic[0] != 0x1f || magic[1] != 0x8b {
		return b.Read(r, name)
	}
	z, err := gzip.NewReader(r)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return b.Read(io.Reader(z), name)
}
