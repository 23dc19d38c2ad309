package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/metamcp/metamcp/integration/regular"
)

// writer writes the files of one chain. It belongs to the log's goroutine.
type writer struct {
	o    *Options
	path string // of the chain, which need not be that of the options
	enc  *encoder

	f      *os.File // nil: to be opened
	size   int64    // of f
	begun  time.Time
	dirty  bool   // f ends in a piece of a line
	number uint64 // that f gets when it is rotated
	turned bool   // f is new and its rotate entry is to be written

	oldest   uint64 // the first entry that is kept
	last     Head   // the last entry that is in the file
	found    string
	headOpen bool // the head file says that a host writes
	unsynced bool

	buf   []byte
	marks []mark
}

// mark is where a line of buf ends.
type mark struct {
	end   int
	head  Head
	given bool // by the caller; a rotate entry is not
}

// chunk is how much is written at once.
const chunk = 64 << 10

// ready reads where the chain ends; it does nothing the second time.
func (w *writer) ready() error {
	if w.enc != nil {
		return nil
	}
	key, err := loadKey(w.o.Path)
	if err != nil {
		return err
	}
	e, err := findEnd(w.path)
	if err != nil {
		return err
	}
	w.last, w.found, w.number, w.oldest = e.last, e.found, e.number, e.oldest
	w.enc = newEncoder(w.o, key)
	return nil
}

// write writes entries and returns how many are in the file; the others may be
// given again.
func (w *writer) write(entries []Entry) (int, error) {
	if err := w.ready(); err != nil {
		return 0, err
	}
	if err := w.open(); err != nil {
		return 0, err
	}
	if !w.headOpen {
		// Only now may something follow the entry of a host that has ended.
		if err := w.writeHead(false); err != nil {
			return 0, err
		}
		w.headOpen = true
	}
	w.enc.begin()
	done := 0
	for i := range entries {
		now := w.o.Now()
		// How old a file is that begins after now, by a clock that went back since,
		// nobody knows.
		age := now.Sub(w.begun)
		old := age < 0 || age >= w.o.MaxAge
		// A piece of a line that a killed host left stays before the start entry
		// that explains it, in one file.
		if size := w.size + int64(len(w.buf)); size > 0 && !w.turned && !w.dirty && (size >= w.o.MaxBytes || old) {
			n, err := w.flush()
			if done += n; err != nil {
				return done, err
			}
			if err := w.rotate(); err != nil {
				return done, err
			}
		}
		if w.turned {
			if err := w.turn(now); err != nil {
				return done, err
			}
		}
		x := &entries[i]
		if x.Kind == KindStart {
			x.found = w.found
		}
		w.add(x, true)
		if len(w.buf) >= chunk {
			n, err := w.flush()
			if done += n; err != nil {
				return done, err
			}
		}
	}
	n, err := w.flush()
	return done + n, err
}

// add puts a line into the buffer.
func (w *writer) add(x *Entry, given bool) {
	follows := w.last
	if n := len(w.marks); n > 0 {
		follows = w.marks[n-1].head
	}
	if len(w.buf) == 0 && w.dirty {
		w.buf = append(w.buf, '\n')
	}
	line, sum, err := w.enc.line(w.buf, x, follows.Seq+1, follows.Hash)
	if err != nil {
		// Such as a time after the year 9999.
		gap := Entry{Kind: KindGap, Time: w.o.Now(), lost: 1}
		if line, sum, err = w.enc.line(w.buf, &gap, follows.Seq+1, follows.Hash); err != nil {
			return
		}
	}
	if w.size == 0 && len(w.marks) == 0 {
		w.begun = w.o.Now()
	}
	w.buf = line
	w.marks = append(w.marks, mark{len(line), Head{follows.Seq + 1, sum}, given})
}

// flush writes the buffer and returns how many of the caller's lines are in
// the file. Of a line that is not wholly there nothing is left behind, or a
// later line begins anew.
func (w *writer) flush() (given int, err error) {
	if len(w.buf) == 0 {
		return 0, nil
	}
	n, err := w.f.Write(w.buf)
	whole := 0
	for _, m := range w.marks {
		if m.end > n {
			break
		}
		whole, w.last, w.dirty = m.end, m.head, false
		if m.given {
			given++
		} else {
			w.turned = false
		}
	}
	w.unsynced = w.unsynced || whole > 0
	w.size += int64(whole)
	if err != nil && n > whole {
		if w.f.Truncate(w.size) != nil {
			w.size += int64(n - whole)
			w.dirty = true
		}
	}
	w.buf, w.marks = w.buf[:0], w.marks[:0]
	if err != nil {
		err = fmt.Errorf("write the audit log: %w", err)
	}
	return given, err
}

// open opens the file that is written.
func (w *writer) open() error {
	if w.f != nil {
		return nil
	}
	f, err := regular.Open(w.path, os.O_RDWR|os.O_CREATE|os.O_APPEND)
	if err != nil {
		return fmt.Errorf("open the audit log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	w.size, w.begun, w.dirty = info.Size(), w.o.Now(), false
	if w.size > 0 {
		end := make([]byte, 1)
		if _, err := f.ReadAt(end, w.size-1); err != nil && !errors.Is(err, io.EOF) {
			return errors.Join(err, f.Close())
		}
		w.dirty = end[0] != '\n'
		first, err := firstOf(w.path)
		if err != nil {
			return errors.Join(err, f.Close())
		}
		if first.Seq > 0 {
			w.begun = first.Time
		}
	}
	w.f = f
	return nil
}

// rotate gives the file its number and begins a new one.
func (w *writer) rotate() error {
	if err := w.sync(); err != nil {
		return err
	}
	if w.f == nil {
		return w.open() // it was taken away
	}
	_ = w.f.Close() // it is synced
	w.f = nil
	if err := os.Rename(w.path, rotated(w.path, w.number)); err != nil {
		return errors.Join(fmt.Errorf("rotate the audit log: %w", err), w.open())
	}
	w.number++
	w.turned = true
	return w.open()
}

// turn writes the first entry of a new file and then deletes the oldest files:
// in this order, since nobody could tell otherwise who has deleted them.
func (w *writer) turn(now time.Time) error {
	files, err := listFiles(w.path)
	if err != nil {
		return err
	}
	x := Entry{Kind: KindRotate, Time: now, oldest: w.oldest}
	if first, err := firstAfter(files); err != nil {
		return err
	} else if first > w.oldest {
		// It is said here, since the next file that is deleted would hide it.
		x.found = fmt.Sprintf("entries %d–%d were missing at the beginning", w.oldest, first-1)
	}
	surplus := max(0, len(files)-w.o.MaxFiles)
	if surplus > 0 {
		first, err := firstAfter(files[surplus:])
		if err != nil {
			return err
		}
		x.oldest = max(first, w.oldest)
	}
	w.add(&x, false)
	if _, err := w.flush(); err != nil {
		return err
	}
	if err := w.sync(); err != nil {
		return err
	}
	w.oldest = x.oldest
	for _, f := range files[:surplus] {
		if err := os.Remove(f.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("delete an old file of the audit log: %w", err)
		}
	}
	return nil
}

// firstAfter returns the number of the first entry in files; 0: there is none.
func firstAfter(files []numbered) (uint64, error) {
	for _, f := range files {
		if first, err := firstOf(f.path); err != nil || first.Seq > 0 {
			return first.Seq, err
		}
	}
	return 0, nil
}

// sync makes durable what was written, and then says so in the head file.
func (w *writer) sync() error {
	if w.f == nil || !w.unsynced {
		return nil
	}
	if err := w.f.Sync(); err != nil {
		return fmt.Errorf("sync the audit log: %w", err)
	}
	if err := w.writeHead(false); err != nil {
		return err
	}
	w.unsynced = false
	return w.untouched()
}

// untouched looks whether somebody else has taken away or changed the file,
// and carries on in a new one, or on a new line.
func (w *writer) untouched() error {
	mine, err := w.f.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(w.path)
	switch {
	case err != nil || !os.SameFile(mine, there):
		_ = w.f.Close() // nothing reaches it any more
		w.f = nil
		return errors.Join(fmt.Errorf("somebody took away the audit log %s; what was in it is missing from the chain", w.path), w.open())
	case mine.Size() != w.size:
		_ = w.f.Close() // what was written is synced
		w.f = nil
		return errors.Join(fmt.Errorf("somebody else wrote to the audit log %s or cut it", w.path), w.open())
	}
	return nil
}

func (w *writer) writeHead(closed bool) error {
	files, err := listFiles(w.path)
	if err != nil {
		return err
	}
	h := headFile{V: Version, Seq: w.last.Seq, Hash: w.last.Hash, Closed: closed, File: w.number, Size: w.size}
	for _, f := range files {
		h.Files = append(h.Files, filepath.Base(f.path))
	}
	if err := h.write(w.path); err != nil {
		return fmt.Errorf("write the head of the audit log: %w", err)
	}
	return nil
}

// close ends the chain in order.
func (w *writer) close() error {
	if w.f == nil {
		return nil
	}
	err := w.sync()
	if err == nil && w.headOpen {
		err = w.writeHead(true)
	}
	if w.f != nil {
		err = errors.Join(err, w.f.Close())
	}
	return err
}
