package tracelog

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/metamcp/metamcp/integration/regular"
	"github.com/metamcp/metamcp/integration/rotate"
	"github.com/metamcp/metamcp/messages"
)

// MaxFile is the size, in bytes, from which a trace file turns over, and
// KeepFiles how many old ones are kept: FILE.1 is the newest of them.
const (
	MaxFile   = 64 << 20
	KeepFiles = 5
)

// File writes JSON lines to a file that turns over when it is large. Each file
// begins with a start record.
type File struct {
	path  string
	who   string // of the start record
	pid   int    // of this process: others may write to the file as well
	limit int64
	open  func(path string) (*os.File, error)

	f       *os.File
	regular bool // a pipe does not turn over
	size    int64
	json    *JSON
}

// recordStart is what every record of every version begins with.
const recordStart = `{"v":`

// OpenFile appends to the file at path, which open opens. who names the host
// that traces. limit is the size from which it turns over; 0: [MaxFile]. A file in
// which something else stands is left as it is, with an error.
func OpenFile(path, who string, limit int64, open func(path string) (*os.File, error)) (*File, error) {
	if limit <= 0 {
		limit = MaxFile
	}
	// A pipe or a device is taken as it is.
	if ours, err := regular.Begins(path, recordStart); err != nil && !errors.Is(err, regular.ErrNotRegular) {
		return nil, err
	} else if err == nil && !ours {
		return nil, fmt.Errorf("%s holds something else than a trace, and nothing was written to it", path)
	}
	w := &File{path: path, who: who, pid: os.Getpid(), limit: limit, open: open}
	if err := w.begin(true); err != nil {
		return nil, err
	}
	return w, nil
}

// begin opens the file; first says that an earlier host may have left a piece
// of a line in it. Later, what looks like one is what another host is writing.
func (w *File) begin(first bool) error {
	f, err := w.open(w.path)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	w.f, w.regular, w.size, w.json = f, info.Mode().IsRegular(), info.Size(), NewJSON(f)
	if first && w.regular && w.size > 0 {
		if err := w.endLine(); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return w.put(&messages.TraceRecord{V: messages.TraceVersion, Time: time.Now().UTC(), Kind: messages.TraceStart, Detail: w.who})
}

// endLine ends a line that a killed host left unfinished, so that the next
// record is not lost with it.
func (w *File) endLine() error {
	r, err := regular.Open(w.path, os.O_RDONLY)
	if err != nil {
		return nil // a file that may be written and not read is left as it is
	}
	defer func() { _ = r.Close() }()
	var last [1]byte
	if _, err := r.ReadAt(last[:], w.size-1); err != nil || last[0] == '\n' {
		return nil // somebody cut the file meanwhile
	}
	n, err := w.f.WriteString("\n")
	w.size += int64(n)
	return err
}

// WriteRecord writes one record, into a buffer at first.
func (w *File) WriteRecord(r *messages.TraceRecord) error {
	if w.regular && w.size >= w.limit {
		if err := w.turnOver(); err != nil {
			return err
		}
	}
	return w.put(r)
}

func (w *File) put(r *messages.TraceRecord) error {
	own := *r // others may watch the same one
	own.PID = w.pid
	n, err := w.json.put(&own)
	w.size += int64(n)
	return err
}

// Flush writes what is buffered. Where another host that writes to the file as
// well has turned it over, it goes on in the new one.
func (w *File) Flush() error {
	if err := w.json.Flush(); err != nil || !w.regular {
		return err
	}
	mine, err := w.f.Stat()
	if err != nil {
		return err
	}
	w.size = mine.Size() // the other's lines count too
	if rotate.Is(w.path, mine) {
		return nil
	}
	if err := w.f.Close(); err != nil {
		return err
	}
	if err := w.begin(false); err != nil {
		return err
	}
	return w.json.Flush()
}

// Resume opens the file again after an error, such as that of a full disk, with a
// new start record. What was buffered is lost. It may be called until it succeeds.
func (w *File) Resume() error {
	_ = w.f.Close() // what it has to say was said
	if err := w.begin(true); err != nil {
		return err
	}
	return w.json.Flush()
}

// Close writes what is buffered and closes the file.
func (w *File) Close() error { return errors.Join(w.json.Flush(), w.f.Close()) }

// turnOver goes on in a new file, which another host may have made already.
func (w *File) turnOver() error {
	mine, err := w.f.Stat()
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := rotate.File(w.path, mine, KeepFiles); err != nil {
		return fmt.Errorf("the trace file cannot turn over: %w", err)
	}
	return w.begin(false)
}
