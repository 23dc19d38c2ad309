// Package lossy writes a log to where perhaps nobody reads, or to a disk that may
// stall: a pipe that is full holds no one up. What finds no room is dropped and counted.
package lossy

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// MaxQueued is how many bytes wait to be written before what comes is dropped.
const MaxQueued = 1 << 20

// Writer hands what it is given to a goroutine that writes it. It is safe for
// any goroutine.
type Writer struct {
	to   io.Writer
	wake chan struct{}
	done chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	queue   []byte
	lines   int    // calls of Write in queue
	writing int    // bytes that were taken from queue and are being written
	lost    int    // dropped, and not said yet
	dropped uint64 // in all
	closed  bool
}

// NewWriter starts to write to to. The caller closes the Writer; to itself
// stays open.
func NewWriter(to io.Writer) *Writer {
	w := &Writer{to: to, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go w.run()
	return w
}

// Write takes one line, or several that belong together, and never blocks. It
// reports success even where p was dropped: who logs can do nothing about it.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.queue)+w.writing+len(p) > MaxQueued {
		w.lost++
		w.dropped++
		return len(p), nil
	}
	w.queue = append(w.queue, p...)
	w.lines++
	w.nudge()
	return len(p), nil
}

func (w *Writer) nudge() {
	select {
	case w.wake <- struct{}{}:
	default: // it is awake, or about to be
	}
}

// Close takes nothing more and waits until all is written or ctx ends. It
// returns how many lines were dropped since the start, those included that are
// then still unwritten; where a write hangs its goroutine is left behind and
// ends with it. It may be called more than once.
func (w *Writer) Close(ctx context.Context) (dropped uint64) {
	w.mu.Lock()
	w.closed = true
	w.nudge()
	w.mu.Unlock()
	select {
	case <-w.done:
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped + uint64(w.lines)
}

func (w *Writer) run() {
	defer close(w.done)
	for {
		batch, lines, over := w.take()
		if len(batch) > 0 {
			_, err := w.to.Write(batch)
			w.wrote(lines, err)
			continue
		}
		if over {
			return
		}
		<-w.wake
	}
}

// take returns what is to be written, with what is to be said of the lines
// between that and the batch before.
func (w *Writer) take() (batch []byte, lines int, over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	batch, lines = w.queue, w.lines
	if w.lost > 0 {
		batch = fmt.Appendf(batch, "metamcp: %d lines of the log were dropped here, since they were not taken in time\n", w.lost)
		w.lost = 0
	}
	w.queue, w.writing = nil, len(batch)
	return batch, lines, w.closed
}

// wrote counts what the writer refused among the dropped: a log that cannot be
// written hurts nobody.
func (w *Writer) wrote(lines int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writing = 0
	w.lines -= lines
	if err != nil {
		w.dropped += uint64(lines)
	}
}
