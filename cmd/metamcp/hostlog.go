package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/metamcp/metamcp/integration/lossy"
	"github.com/metamcp/metamcp/integration/regular"
	"github.com/metamcp/metamcp/integration/rotate"
)

// The log of a detached host turns over at logBytes, and so does its trace; logFiles old
// ones are kept of each.
const (
	logBytes = 10 << 20
	logFiles = 5
	// logLook is how often a host looks whether another one turned its log over.
	logLook = time.Second
)

// detachedLogs is where a host in the background says what it has to say.
type detachedLogs struct {
	log   *lossy.Writer // to file: actors log, and must not wait for a disk that stalls
	file  *hostLogFile
	trace *hostLogFile // for people; no actor writes to it
}

// isHostLog says whether a file that begins so is the log of a host. One line is enough:
// the first may have been cut by whoever tidied up, or by a disk that was full.
func isHostLog(beginning []byte) bool {
	for line := range bytes.Lines(beginning) {
		for _, start := range []string{"metamcp: ", "time=", `{"time":"`} { // as package lossy and log/slog begin them, too
			if bytes.HasPrefix(line, []byte(start)) {
				return true
			}
		}
	}
	return false
}

// openDetachedLogs opens the log at path, which a user may have named by mistake: a file
// that is no log of a host stays as it is, and is a usage error. The trace is a file of its own: it is long, and
// in the log it would put aside what the host says.
func openDetachedLogs(path string) (*detachedLogs, error) {
	if err := regular.Appendable(path, isHostLog); errors.Is(err, regular.ErrForeign) {
		return nil, usageError{outFile{path: path, kind: "a log of metamcp host"}.explained(err)}
	} else if err != nil {
		return nil, err
	}
	file, err := openHostLog(path)
	if err != nil {
		return nil, err
	}
	trace := &hostLogFile{path: strings.TrimSuffix(path, ".log") + ".trace", limit: logBytes}
	return &detachedLogs{log: lossy.NewWriter(file), file: file, trace: trace}, nil
}

// close writes the rest of the log. A disk that stalls does not keep the host from
// ending. Who logs can do nothing about what goes wrong.
func (l *detachedLogs) close() {
	endLog(l.log)
	_ = l.file.Close()
	_ = l.trace.Close()
}

// hostLogFile is the log of a host in the background, or its trace. It is opened with the
// first line at the latest. During a restart two hosts have it open: both append, and one
// of them turns it over.
type hostLogFile struct {
	path  string
	limit int64

	mu     sync.Mutex
	f      *os.File // nil: it was not opened yet, or the last attempt failed
	looked time.Time
}

func openHostLog(path string) (*hostLogFile, error) {
	w := &hostLogFile{path: path, limit: logBytes}
	return w, w.open()
}

func (w *hostLogFile) open() (err error) {
	w.f, err = regular.Open(w.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE)
	return err
}

// Write implements io.Writer.
func (w *hostLogFile) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); w.f == nil || now.Sub(w.looked) >= logLook {
		w.looked = now
		if err := w.see(); err != nil {
			return 0, err
		}
	}
	return w.f.Write(text)
}

// see goes on in a new file where this one is large, or was put aside.
func (w *hostLogFile) see() error {
	if w.f == nil {
		return w.open()
	}
	info, err := w.f.Stat()
	if err == nil && rotate.Is(w.path, info) && info.Size() < w.limit {
		return nil
	}
	_ = w.f.Close() // all was written
	w.f = nil
	if err == nil {
		// Where it cannot be turned over it grows, which is better than no log.
		_ = rotate.File(w.path, info, logFiles)
	}
	return w.open()
}

// errHangs is of a file that ends with the process.
var errHangs = errors.New("the file is not closed, since a write to it has not returned; its disk does not answer")

// Close ends the log. It waits for no write that hangs.
func (w *hostLogFile) Close() error {
	if !w.mu.TryLock() {
		return errHangs
	}
	defer w.mu.Unlock()
	if w.f == nil {
		return nil
	}
	return w.f.Close()
}

// maxErr is the size from which what the Go runtime said begins anew.
const maxErr = 1 << 20

// openErr opens the file for what the Go runtime itself says, should it break, which
// passes no logger. Another host may be writing to it; from is where this one's begins.
func openErr(path string) (f *os.File, from int64, err error) {
	for {
		f, err = regular.Open(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE)
		if err != nil {
			return nil, 0, err
		}
		info, err := f.Stat()
		if err != nil {
			return nil, 0, errors.Join(err, f.Close())
		}
		turned := info.Size() >= maxErr && rotate.File(path, info, 1) == nil
		if !turned {
			return f, info.Size(), nil
		}
		_ = f.Close() // it was put aside
	}
}
