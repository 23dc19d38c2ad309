package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// traceBuffer bounds the records that wait to be written for one watcher. An
// actor never waits for a trace: what finds no room is dropped and counted.
const traceBuffer = 16384

// maxPayload bounds, in bytes, the arguments or the result in one record.
const maxPayload = 64 << 10

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

// Trace shows every message between actors, and every event, to those who
// watch. While nobody does, it is not installed and costs nothing. Its methods
// are safe for any goroutine.
type Trace struct {
	// Broke is told that a watcher's writer failed and gets nothing more, or, if
	// it is a [Resumer], nothing until it can go on. Resumed is told that it goes on.
	// Both may be nil; they are set before anyone attaches, and called from any
	// goroutine.
	Broke   func(err error, resumes bool)
	Resumed func(after time.Duration)

	sys *kernel.System
	// scrub returns a text without secrets.
	scrub     func(text []byte) []byte
	scrubJSON func(raw json.RawMessage) json.RawMessage
	// payloads says that requests and answers carry what they are about.
	payloads atomic.Bool
	dropped  atomic.Uint64 // records, over all watchers
	retry    time.Duration // resumeEvery, or less for a test
	spare    sync.Pool     // of *messages.TraceRecord: a call makes a dozen

	mu       sync.Mutex // held by who changes watchers
	watchers atomic.Pointer[[]*Watcher]
}

func newTrace(sys *kernel.System, scrub func([]byte) []byte, scrubJSON func(json.RawMessage) json.RawMessage) *Trace {
	if scrub == nil {
		scrub = func(b []byte) []byte { return b }
	}
	if scrubJSON == nil {
		scrubJSON = func(raw json.RawMessage) json.RawMessage { return raw }
	}
	return &Trace{sys: sys, scrub: scrub, scrubJSON: scrubJSON, retry: resumeEvery, spare: sync.Pool{New: func() any { return new(messages.TraceRecord) }}}
}

// Dropped is how many records found no room at a watcher, since the start.
func (t *Trace) Dropped() uint64 { return t.dropped.Load() }

// ShowPayloads makes requests and answers carry their arguments and results,
// scrubbed of secrets; they hold only sizes otherwise.
func (t *Trace) ShowPayloads(on bool) { t.payloads.Store(on) }

// A Watcher writes the records that it wants on a goroutine of its own.
type Watcher struct {
	t     *Trace
	w     RecordWriter
	wants func(*messages.TraceRecord) bool // keeps nothing of the record

	mu      sync.Mutex // held for as long as it takes to copy a record
	waiting []messages.TraceRecord
	dropped uint64

	full chan struct{} // capacity 1: write now
	stop chan struct{}
	done chan struct{} // closed when the goroutine has ended
	err  error         // read after done
}

// watchEvery is how long records wait for others: writing each by itself would
// wake a goroutine for it, which costs more than the record.
const watchEvery = 20 * time.Millisecond

// Attach starts to write to w what wants, which may be nil, lets pass; wants is
// called on the actors' goroutines and keeps nothing of a record. The caller
// closes the Watcher, after the actors have stopped if it is to see all.
func (t *Trace) Attach(w RecordWriter, wants func(*messages.TraceRecord) bool) *Watcher {
	n := &Watcher{
		t: t, w: w, wants: wants, full: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go n.run()
	n.attach()
	return n
}

func (t *Trace) change(f func([]*Watcher) []*Watcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []*Watcher
	if old := t.watchers.Load(); old != nil {
		list = slices.Clone(*old)
	}
	list = f(list)
	t.watchers.Store(&list)
	if len(list) == 0 {
		t.sys.SetTracer(nil)
		return
	}
	t.sys.SetTracer(t)
}

// Done is closed when the watcher has ended, because it was closed or its
// writer failed.
func (w *Watcher) Done() <-chan struct{} { return w.done }

// Close ends the watching, writes what is buffered and returns the error that
// keeps the writer from its work. Where that is not over when ctx ends it says so; the goroutine
// is left behind and ends with the write that hangs. It is called once.
func (w *Watcher) Close(ctx context.Context) error {
	close(w.stop)
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
	var batch []messages.TraceRecord
	for ended := false; !ended; {
		select {
		case <-tick.C:
		case <-w.full:
		case <-w.stop:
			ended = true
		}
		var dropped uint64
		batch, dropped = w.take(batch)
		w.flush(batch, dropped)
		if w.err != nil && !ended {
			ended = !w.recover()
		}
	}
}

// recover waits until the writer can go on, and reports whether it does: false
// once the watcher is closed. A full disk interrupts the trace, not the host; nor
// shall actors go on to make records for nobody.
func (w *Watcher) recover() bool {
	w.detach()
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
		_, dropped := w.take(nil) // what came while it broke is out of order by now
		took := time.Since(began).Round(time.Millisecond)
		w.err = nil
		w.flush(nil, dropped)
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
	w.mu.Lock()
	n := len(w.waiting)
	if n < traceBuffer {
		w.waiting = append(w.waiting, *r)
	} else {
		w.dropped++
		w.t.dropped.Add(1)
	}
	w.mu.Unlock()
	if n == traceBuffer/2 {
		select {
		case w.full <- struct{}{}:
		default:
		}
	}
}

// take returns what waits, and leaves old, which is done with, in its place.
func (w *Watcher) take(old []messages.TraceRecord) (batch []messages.TraceRecord, dropped uint64) {
	clear(old)
	w.mu.Lock()
	defer w.mu.Unlock()
	batch, dropped = w.waiting, w.dropped
	w.waiting, w.dropped = old[:0], 0
	return batch, dropped
}

func (w *Watcher) flush(batch []messages.TraceRecord, dropped uint64) {
	if len(batch) == 0 && dropped == 0 {
		return
	}
	for i := range batch {
		w.write(&batch[i])
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

// payload is a JSON value of bounded size: what is too long is a string of its
// beginning.
func payload(raw []byte) json.RawMessage {
	if len(raw) <= maxPayload && json.Valid(raw) {
		return raw
	}
	cut, _ := json.Marshal(string(raw[:min(len(raw), maxPayload)]) + "…") // a string always marshals
	return cut
}

func (t *Trace) put(r *messages.TraceRecord) {
	list := t.watchers.Load()
	if list == nil {
		return
	}
	for _, w := range *list {
		if w.wants != nil && !w.wants(r) {
			continue
		}
		w.put(r)
	}
}

// Message implements kernel.Tracer.
func (t *Trace) Message(r *kernel.Record) {
	rec := t.spare.Get().(*messages.TraceRecord)
	*rec = messages.TraceRecord{
		Time: r.Sent, Kind: messages.TraceMessage, Request: r.Correlation, Span: r.Span, Parent: r.Parent,
		From: r.From, To: r.To, Type: r.Type, Before: r.Before, After: r.After,
		WaitNs: r.Wait.Nanoseconds(), RanNs: r.Ran.Nanoseconds(), Bytes: r.Bytes,
	}
	if r.Panicked {
		rec.Outcome = "panic"
	}
	t.put(rec)
	t.spare.Put(rec)
}

// Event implements kernel.Tracer.
func (t *Trace) Event(e *kernel.Event) {
	rec := t.spare.Get().(*messages.TraceRecord)
	*rec = messages.TraceRecord{Time: time.Now(), Kind: e.Kind, Request: e.Correlation, Span: e.Span, To: e.Actor, Detail: e.Detail}
	t.put(rec)
	t.spare.Put(rec)
}

// DeadLetter implements kernel.Tracer.
func (t *Trace) DeadLetter(to string, msg any) {
	r := messages.TraceRecord{Time: time.Now(), Kind: messages.TraceDeadLetter, To: to, Type: kernel.TypeName(msg)}
	if c, ok := msg.(interface{ Correlation() uint64 }); ok {
		r.Request = c.Correlation()
	}
	t.put(&r)
}

// Failure implements kernel.Tracer.
func (t *Trace) Failure(actor, reason, directive string) {
	t.put(&messages.TraceRecord{Time: time.Now(), Kind: messages.TraceFailure, To: actor, Detail: directive + ": " + reason})
}

// watched reports whether anybody watches.
func (t *Trace) watched() bool {
	list := t.watchers.Load()
	return list != nil && len(*list) > 0
}

// began shows a client's request as it enters, or a call of a script.
func (t *Trace) began(kind string, call *messages.Call, actor string) {
	if !t.watched() {
		return
	}
	r := messages.TraceRecord{
		Time: time.Now(), Kind: kind, Request: call.Trace, To: actor,
		Server: shortName(call.Server), Tool: shortName(call.What()), Bytes: call.PayloadBytes(),
	}
	if t.payloads.Load() {
		r.Payload = call.Payload()
	}
	t.put(&r)
}

// ended shows the one answer to a request, or to a call of a script.
func (t *Trace) ended(kind string, report *CallReport, actor string) {
	if !t.watched() {
		return
	}
	r := messages.TraceRecord{
		Time: report.Started.Add(report.Took), Kind: kind, Request: report.Call.Trace, From: actor, To: actor,
		Server: shortName(report.Call.Server), Tool: shortName(report.Call.What()),
		RanNs: report.Took.Nanoseconds(), Outcome: report.Outcome, Bytes: report.Answer.PayloadBytes(),
	}
	if report.Answer.Err != nil {
		r.Detail = report.Answer.Err.Message
	}
	if t.payloads.Load() {
		r.Payload = slices.Concat(report.Answer.Result, report.Answer.RPCError)
	}
	t.put(&r)
}

// runEnded shows the end of a script, as the answer to the request that it
// came with.
func (t *Trace) runEnded(call *messages.Call, run *messages.RunReport, actor string) {
	if !t.watched() {
		return
	}
	r := messages.TraceRecord{
		Time: time.Now(), Kind: messages.TraceAnswer, Request: call.Trace, From: actor, To: actor, Tool: call.Tool,
		RanNs: run.Took.Nanoseconds(), WaitNs: run.Waited.Nanoseconds(), Outcome: OutcomeOK,
	}
	switch {
	case run.Err != nil:
		r.Outcome, r.Detail = string(run.Err.Code), run.Err.Message
	case run.Outcome.Failure != nil:
		r.Outcome, r.Detail = string(run.Outcome.Failure.Code()), string(run.Outcome.Failure.Kind)+": "+run.Outcome.Failure.Message
	default:
		r.Bytes = len(run.Outcome.Value)
	}
	t.put(&r)
}

// provisionEnded shows what became of a request for a server, as the answer to
// it.
func (t *Trace) provisionEnded(call *messages.Call, p *messages.ProvisionReport, actor string) {
	if !t.watched() {
		return
	}
	r := messages.TraceRecord{
		Time: time.Now(), Kind: messages.TraceAnswer, Request: call.Trace, From: actor, To: actor, Tool: call.Tool, Server: shortName(p.Server),
		RanNs: p.Took.Nanoseconds(), Outcome: OutcomeOK, Detail: string(p.Decision),
	}
	if p.Package != "" {
		r.Detail += ": " + shortName(p.Package)
	}
	if p.Err != nil {
		r.Outcome = string(p.Err.Code)
		r.Detail += ": " + p.Err.Message
	}
	t.put(&r)
}
