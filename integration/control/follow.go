package control

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"
)

// follower copies what is appended to a log that is turned over now and then.
// It holds the file that it reads open, so that the file's identity is not
// given to another one.
type follower struct {
	w     io.Writer
	files func() ([]string, error)
	f     *os.File // nil: there was none yet
}

func (t *follower) close() {
	if t.f != nil {
		_ = t.f.Close() // only read
	}
}

func (t *follower) run(ctx context.Context) error {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		more, err := t.step(ctx)
		if err != nil {
			return err
		}
		if more {
			continue
		}
		if err := flush(t.w); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// step copies what is there and reports whether it moved to another file.
func (t *follower) step(ctx context.Context) (moved bool, err error) {
	if t.f == nil {
		paths, err := t.files()
		if err != nil || len(paths) == 0 {
			return false, err
		}
		return t.move(paths[0], "", nil)
	}
	paths, err := t.files()
	if err != nil {
		return false, err
	}
	own, err := t.f.Stat()
	if err != nil {
		return false, err
	}
	if at, err := t.f.Seek(0, io.SeekCurrent); err != nil {
		return false, err
	} else if own.Size() < at {
		// It was emptied in its place.
		if _, err := t.f.Seek(0, io.SeekStart); err != nil {
			return false, err
		}
	}
	// After the paths were asked for: a file that has been turned over by then
	// gets nothing more, so it is copied to its end here.
	if err := copyRest(ctx, t.w, t.f); err != nil {
		return false, err
	}
	for i, path := range paths {
		info, err := os.Stat(path)
		if err != nil || !os.SameFile(info, own) {
			continue
		}
		if i == len(paths)-1 {
			return false, nil // the current one
		}
		return t.move(paths[i+1], path, own)
	}
	if len(paths) == 0 {
		return false, nil
	}
	// It was turned over so often that it is gone: the oldest comes next.
	return t.move(paths[0], "", nil)
}

// move goes on with the file at path, which comes after the one at before; own
// is what must be there still, or else the files were turned over just now.
func (t *follower) move(path, before string, own os.FileInfo) (bool, error) {
	f, _, err := openLog(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // it is made in a moment
	}
	if err != nil {
		return false, err
	}
	if own != nil {
		if info, err := os.Stat(before); err != nil || !os.SameFile(info, own) {
			return false, f.Close()
		}
	}
	t.close()
	t.f = f
	return true, nil
}
