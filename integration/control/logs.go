package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/metamcp/metamcp/integration/safename"
)

// DefaultLines is how many lines of a log are shown where nobody says.
const DefaultLines = 100

const (
	logSuffix = ".log"
	// followEvery is how often a followed log is looked at.
	followEvery = 250 * time.Millisecond
	block       = 64 << 10
)

// LogOptions say what of a log is wanted.
type LogOptions struct {
	Lines  int  // the last ones; those that come later with Follow do not count
	Follow bool // until the context ends
}

// LogFiles returns the logs of a server in a folder, oldest first: NAME.log.2,
// NAME.log.1, NAME.log, as far as they exist.
func LogFiles(dir, server string) ([]string, error) {
	current := safename.SafeName(server) + logSuffix
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the logs cannot be listed: %w", err)
	}
	var old []int
	var files []string
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), current)
		if !ok || !e.Type().IsRegular() {
			continue
		}
		if n, err := strconv.Atoi(strings.TrimPrefix(rest, ".")); err == nil && n > 0 && rest == "."+strconv.Itoa(n) {
			old = append(old, n)
		} else if rest == "" {
			files = append(files, filepath.Join(dir, current))
		}
	}
	slices.Sort(old)
	for _, n := range old {
		files = append(files, filepath.Join(dir, current+"."+strconv.Itoa(n)))
	}
	slices.Reverse(files)
	return files, nil
}

// CopyLogs writes the end of a server's log to w, and with Follow what comes
// later until ctx ends, across rotations. It calls files, which returns the
// logs oldest first, again and again. Where w has a method Flush() error it is
// called whenever there is nothing more for now. It returns nil where ctx has
// ended.
func CopyLogs(ctx context.Context, w io.Writer, files func() ([]string, error), o LogOptions) error {
	opened, err := openLogs(files)
	if err != nil {
		return err
	}
	defer func() {
		for _, f := range opened {
			_ = f.Close() // only read
		}
	}()
	starts, err := lastLines(opened, o.Lines)
	if err != nil {
		return err
	}
	for i, f := range opened {
		if _, err := f.Seek(starts[i], io.SeekStart); err != nil {
			return err
		}
		if err := copyRest(ctx, w, f); err != nil {
			return orDone(ctx, err)
		}
	}
	if err := flush(w); err != nil || !o.Follow {
		return orDone(ctx, err)
	}
	t := follower{w: w, files: files}
	if len(opened) > 0 {
		t.f = opened[len(opened)-1]
		opened = opened[:len(opened)-1]
	}
	defer t.close()
	return orDone(ctx, t.run(ctx))
}

// orDone drops errors of a reader that was told to end.
func orDone(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// openLogs opens all files, oldest first. They are opened from the newest on:
// one that is turned over meanwhile is then met twice, and not missed.
func openLogs(files func() ([]string, error)) ([]*os.File, error) {
	paths, err := files()
	if err != nil {
		return nil, err
	}
	var opened []*os.File
	var seen []os.FileInfo
	for _, path := range slices.Backward(paths) {
		f, info, err := openLog(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			for _, f := range opened {
				_ = f.Close() // only read
			}
			return nil, err
		}
		if slices.ContainsFunc(seen, func(other os.FileInfo) bool { return os.SameFile(info, other) }) {
			_ = f.Close() // only read
			continue
		}
		opened, seen = append(opened, f), append(seen, info)
	}
	slices.Reverse(opened)
	return opened, nil
}

// openLog opens a log, which must be a regular file: anything else could be
// waited for without end.
func openLog(path string) (*os.File, os.FileInfo, error) {
	f, err := openShared(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", path)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// lastLines returns from where each file has to be read to get the last n
// lines of all.
func lastLines(files []*os.File, n int) ([]int64, error) {
	starts := make([]int64, len(files))
	for i, f := range slices.Backward(files) {
		size, err := f.Seek(0, io.SeekEnd)
		if err != nil {
			return nil, err
		}
		starts[i] = size
		if n > 0 {
			starts[i], n, err = lineStart(f, size, n)
			if err != nil {
				return nil, err
			}
		}
	}
	return starts, nil
}

// lineStart looks backwards for the start of the n last lines of a file, and
// returns how many are missing where it has fewer.
func lineStart(f *os.File, size int64, n int) (start int64, missing int, err error) {
	if size == 0 {
		return 0, n, nil
	}
	buf := make([]byte, block)
	end := size
	for end > 0 {
		from := max(0, end-block)
		part := buf[:end-from]
		if _, err := f.ReadAt(part, from); err != nil {
			if errors.Is(err, io.EOF) {
				return size, n, nil // it was cut meanwhile
			}
			return 0, 0, err
		}
		for i := len(part) - 1; i >= 0; {
			i = bytes.LastIndexByte(part[:i+1], '\n')
			if i < 0 {
				break
			}
			// The newline at the very end ends the last line.
			if at := from + int64(i) + 1; at != size {
				if n--; n == 0 {
					return at, 0, nil
				}
			}
			i--
		}
		end = from
	}
	return 0, n - 1, nil
}

// copyRest copies a file from where it stands to its end of now.
func copyRest(ctx context.Context, w io.Writer, f *os.File) error {
	buf := make([]byte, block)
	for ctx.Err() == nil {
		n, err := f.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func flush(w io.Writer) error {
	if f, ok := w.(interface{ Flush() error }); ok {
		return f.Flush()
	}
	return nil
}
