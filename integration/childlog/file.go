package childlog

import (
	"container/list"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/metamcp/metamcp/integration/regular"
	"github.com/metamcp/metamcp/integration/rotate"
)

// file is the log file of one server.
type file struct {
	path   string
	folder *Folder
	users  int           // guarded by folder.mu
	place  *list.Element // in folder.open; guarded by folder.mu

	mu     sync.Mutex
	f      *os.File    // nil while closed
	opened os.FileInfo // of f
	size   int64
	looked time.Time // when f was last seen to be the file at path
	quiet  time.Time // no attempt to open or write before this moment

	allowance    int64 // bytes that may be written now
	counted      time.Time
	droppedLines int
	droppedBytes int64
}

// append writes whole lines, as far as the rate allows; lines is their number.
// It returns nothing because nobody could do anything about a failure: what
// cannot be written is counted and named once writing works again.
func (w *file) append(text []byte, lines int) {
	w.mu.Lock()
	now := w.folder.now()
	w.refill(now)
	var surplus *file
	if int64(len(text)) > w.allowance || now.Before(w.quiet) {
		w.droppedLines += lines
		w.droppedBytes += int64(len(text))
	} else {
		w.allowance -= int64(len(text))
		surplus = w.write(text, lines, now)
	}
	w.mu.Unlock()
	if surplus != nil {
		surplus.close()
	}
}

// flooded reports whether n bytes are more than may be written now.
func (w *file) flooded(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.folder.now()
	w.refill(now)
	return int64(n) > w.allowance || now.Before(w.quiet)
}

// drop counts what was left out.
func (w *file) drop(lines, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.droppedLines += lines
	w.droppedBytes += int64(n)
}

func (w *file) refill(now time.Time) {
	if d := now.Sub(w.counted); d > 0 {
		w.allowance = min(rate, w.allowance+int64(min(d, time.Second))*rate/int64(time.Second))
		w.counted = now
	}
}

func (w *file) write(text []byte, lines int, now time.Time) (surplus *file) {
	if w.droppedLines > 0 {
		note := fmt.Sprintf("%s metamcp: %d lines (%d bytes) left out here: more than %d bytes in a second, or the file could not be written\n",
			now.UTC().Format(stamp), w.droppedLines, w.droppedBytes, rate)
		text = append([]byte(note), text...)
	}
	err := w.ready(int64(len(text)), now)
	if err == nil {
		var n int
		n, err = w.f.Write(text)
		w.size += int64(n)
	}
	if err != nil {
		w.droppedLines += lines
		w.droppedBytes += int64(len(text))
		w.quiet = now.Add(retry)
		w.closeLocked()
		return nil
	}
	w.droppedLines, w.droppedBytes = 0, 0
	return w.folder.used(w)
}

// ready opens the file and turns it over where n more bytes would not fit.
func (w *file) ready(n int64, now time.Time) error {
	if w.f != nil && now.Sub(w.looked) >= look {
		w.see(now)
	}
	if w.f == nil {
		if err := os.MkdirAll(filepath.Dir(w.path), 0o700); err != nil {
			return err
		}
		if err := w.open(now); err != nil {
			return err
		}
	}
	if w.size == 0 || w.size+n <= maxFile {
		return nil
	}
	w.closeLocked()
	if err := rotate.File(w.path, w.opened, keep); errors.Is(err, rotate.ErrHeld) {
		return err
	} else if err != nil {
		// Whatever is in the way, the bound comes first.
		if err := os.Truncate(w.path, 0); err != nil {
			return err
		}
	}
	return w.open(now)
}

func (w *file) open(now time.Time) error {
	f, err := regular.Open(w.path, appending)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	w.f, w.opened, w.size, w.looked = f, info, info.Size(), now
	return nil
}

// see counts the lines of other hosts that write to the file, and closes it where
// one of them has turned it over.
func (w *file) see(now time.Time) {
	w.looked = now
	info, err := w.f.Stat()
	if err != nil || !rotate.Is(w.path, info) {
		w.closeLocked()
		return
	}
	w.size = info.Size()
}

func (w *file) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closeLocked()
}

func (w *file) closeLocked() {
	if w.f == nil {
		return
	}
	_ = w.f.Close()
	w.f = nil
	w.folder.closed(w)
}
