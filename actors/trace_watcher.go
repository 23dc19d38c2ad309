package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// RecordWriter takes the records of a trace, one goroutine at a time. A record
// is its only during the call.
type RecordWriter interface {
	WriteRecord(r *messages.TraceRecord) error
	// Flush is called when no record waits.
	Flush() error
}

// Resumer is a [RecordWriter] that can begin anew after it has failed, such as a
// file on a disk that was full. What the failure has cost is lost.
type Resumer interface{ Resume() error }

// resumeEvery is how long a watcher waits before it tries its [Resumer] again.
const resumeEvery = 5 * time.Second

// A Watcher writes the records that it wants on a goroutine of its own.
type Watcher struct {
	t     *Trace
	w     RecordWriter
	wants func(*messages.TraceRecord) bool // keeps nothing of the record

	mu      sync.Mutex // held for as long as it takes to copy a record
	waiting batch
	writing int // bytes in the batch that was taken last
	dropped uint64

	full chan struct{} // capacity 1: write now
	stop chan struct{}
	once sync.Once     // of closing stop
	done chan struct{} // closed when the goroutine has ended
	err  error         // read after done

	// names are those of the batch as they are written: few, in many records. No
	// longer, since what a secret is may change.
	names map[string]string
	// record is the one that is being written.
	record messages.TraceRecord
}

// watchEvery is how long records wait for others: writing each by itself would
// wake a goroutine for it, which costs more than the record.
const watchEvery = 20 * time.Millisecond

// writeFrom is from how many records on they wait no longer: few enough for all of
// them to be in the processor's cache still.
const writeFrom = 512

// batch is what waits to be written. Nearly all are messages, which are kept as
// the kernel gave them: half as large as a record, and as quickly copied.
type batch struct {
	entries []batchEntry
	others  []messages.TraceRecord
	bytes   int // of others
}

// batchEntry is a message, or the record others[other-1] where that is not 0.
type batchEntry struct {
	message kernel.Record
	other   int
}

func (b *batch) len() int { return len(b.entries) }

// reset empties the batch; what its messages name are actors and types, which it
// may hold on to.
func (b *batch) reset() {
	clear(b.others)
	b.entries, b.others, b.bytes = b.entries[:0], b.others[:0], 0
}

// Done is closed when the watcher has ended, because it was closed or its
// writer failed.
func (w *Watcher) Done() <-chan struct{} { return w.done }

// Close ends the watching, writes what is buffered and returns the error that
// keeps the writer from its work. Where that is not over when ctx ends it says so; the goroutine
// is left behind and ends with the write that hangs. It may be called more than once.
func (w *Watcher) Close(ctx context.Context) error {
	w.once.Do(func() { close(w.stop) })
	w.detach()
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return fmt.Errorf("the end of the trace was not written, since nobody takes it: %w", ctx.Err())
	}
}

// attach puts the watcher among those that get records, unless it was closed.
func (w *Watcher) attach() {
	w.t.change(func(list []*Watcher) []*Watcher {
		select {
		case <-w.stop:
			return list
		default:
			return append(list, w)
		}
	})
}

func (w *Watcher) detach() {
	w.t.change(func(list []*Watcher) []*Watcher {
		return slices.DeleteFunc(list, func(o *Watcher) bool { return o == w })
	})
}

func (w *Watcher) run() {
	defer close(w.done)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var taken batch
	for ended := false; !ended; {
		select {
		case <-tick.C:
		case <-w.full:
		case <-w.stop:
			ended = true
		}
		var dropped uint64
		taken, dropped = w.take(taken)
		w.flush(&taken, dropped)
		if w.err != nil && !ended {
			taken.reset() // or it is held for as long as the disk is full
			ended = !w.recover()
		}
	}
}

// recover waits until the writer can go on, and reports whether it does: false
// once the watcher is closed. A full disk interrupts the trace, not the host; nor
// shall actors go on to make records for nobody.
func (w *Watcher) recover() bool {
	w.detach()
	dropped := w.discard()
	writer, resumes := w.w.(Resumer)
	if told := w.t.Broke; told != nil {
		told(w.err, resumes)
	}
	if !resumes {
		<-w.stop
		return false
	}
	began, why := time.Now(), w.err
	retry := time.NewTicker(w.t.retry)
	defer retry.Stop()
	for w.err != nil {
		select {
		case <-w.stop:
			return false
		case <-retry.C:
		}
		if err := writer.Resume(); err != nil {
			continue
		}
		dropped += w.discard()
		took := time.Since(began).Round(time.Millisecond)
		w.err = nil
		w.flush(&batch{}, dropped)
		w.write(&messages.TraceRecord{Time: time.Now(), Kind: messages.TraceDropped, Detail: fmt.Sprintf("nothing was recorded for %v: %v", took, why)})
		if w.sync(); w.err != nil {
			continue
		}
		w.attach()
		if told := w.t.Resumed; told != nil {
			told(took)
		}
	}
	return true
}

// put leaves a record for the goroutine.
func (w *Watcher) put(r *messages.TraceRecord) {
	size := len(r.Payload) + len(r.Detail)
	w.mu.Lock()
	n := w.waiting.len()
	if w.hasRoom(n, size) {
		w.waiting.bytes += size
		w.waiting.others = append(w.waiting.others, *r)
		w.waiting.entries = append(w.waiting.entries, batchEntry{other: len(w.waiting.others)})
	}
	w.mu.Unlock()
	w.hurry(n)
}

// putMessage is put for a message.
func (w *Watcher) putMessage(r *kernel.Record) {
	w.mu.Lock()
	n := w.waiting.len()
	if w.hasRoom(n, 0) {
		w.waiting.entries = append(w.waiting.entries, batchEntry{message: *r})
	}
	w.mu.Unlock()
	w.hurry(n)
}

// hasRoom reports whether there is room behind n records for one of so many bytes, and
// counts what finds none. A record that is larger than the bound has room where nothing
// else has bytes. The caller holds mu.
func (w *Watcher) hasRoom(n, size int) bool {
	held := w.waiting.bytes + w.writing
	if n < traceBuffer && (size == 0 || held == 0 || held+size <= traceBytes) {
		return true
	}
	w.dropped++
	w.t.dropped.Add(1)
	return false
}

// hurry has what waits written where one more record came to n.
func (w *Watcher) hurry(n int) {
	if n != writeFrom {
		return
	}
	select {
	case w.full <- struct{}{}:
	default:
	}
}

// take returns what waits, and leaves old, which is done with, in its place.
func (w *Watcher) take(old batch) (taken batch, dropped uint64) {
	old.reset()
	w.mu.Lock()
	defer w.mu.Unlock()
	taken, dropped = w.waiting, w.dropped
	w.waiting, w.writing, w.dropped = old, taken.bytes, 0
	return taken, dropped
}

// discard lets go of what waits, which is out of order by the time that a writer which
// failed goes on, and says that nothing is being written any more. It returns how many
// records found no room before.
func (w *Watcher) discard() (dropped uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting.reset()
	dropped, w.writing, w.dropped = w.dropped, 0, 0
	return dropped
}

func (w *Watcher) flush(taken *batch, dropped uint64) {
	if taken.len() == 0 && dropped == 0 {
		return
	}
	clear(w.names)
	for i := range taken.entries {
		e := &taken.entries[i]
		if e.other > 0 {
			w.write(&taken.others[e.other-1])
			continue
		}
		ofMessage(&w.record, &e.message)
		w.write(&w.record)
	}
	if dropped > 0 {
		w.write(&messages.TraceRecord{Time: time.Now(), Kind: messages.TraceDropped, Count: dropped, Detail: fmt.Sprint(dropped, " records found no room")})
	}
	w.sync()
}

// sync writes what the writer has in a buffer.
func (w *Watcher) sync() {
	if err := w.w.Flush(); err != nil && w.err == nil {
		w.err = fmt.Errorf("write the trace: %w", err)
	}
}

// write completes a record, which costs the watcher and not the actors.
func (w *Watcher) write(r *messages.TraceRecord) {
	if w.err != nil {
		return
	}
	r.V, r.Time = messages.TraceVersion, r.Time.UTC()
	r.Server, r.Tool = w.name(r.Server), w.name(r.Tool)
	if r.Detail != "" {
		r.Detail = string(w.t.scrub([]byte(r.Detail)))
	}
	if r.Payload != nil {
		r.Payload = payload(w.t.scrubJSON(r.Payload))
	}
	if err := w.w.WriteRecord(r); err != nil {
		w.err = fmt.Errorf("write the trace: %w", err)
	}
}

// name is a name without the secrets in it, which a client may have sent in place of
// one, and cut only then: what is cut can no longer be found.
func (w *Watcher) name(name string) string {
	if name == "" {
		return ""
	}
	clean, ok := w.names[name]
	if !ok {
		clean = shortName(string(w.t.scrub([]byte(name))))
		if w.names == nil {
			w.names = map[string]string{}
		}
		w.names[name] = clean
	}
	return clean
}

// payload is a JSON value of bounded size: what is too long is a string of its
// beginning.
func payload(raw []byte) json.RawMessage {
	if len(raw) <= maxPayload && json.Valid(raw) {
		return raw
	}
	cut, _ := json.Marshal(string(raw[:min(len(raw), maxPayload)]) + "…") // a string always marshals
	return cut
}
