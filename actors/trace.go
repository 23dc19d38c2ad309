package actors

import (
	"encoding/json"
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

// traceBytes bounds the texts of those records, payloads above all, and of those that
// are being written: a payload may be as long as a message. What is
// beside a long one in the buffer that it was read into is not counted (keptPayload).
const traceBytes = 64 << 20

// maxPayload bounds, in bytes, the arguments or the result in one record.
const maxPayload = 64 << 10

// maxCopied is up to how many bytes a payload is copied for a record; more would keep
// those waiting who wait for the actor.
const maxCopied = 256 << 10

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
// scrubbed of secrets; they hold only sizes otherwise. While it is on, the trace may
// read an answer after the caller has it.
func (t *Trace) ShowPayloads(on bool) { t.payloads.Store(on) }

// ShowsPayloads reports what ShowPayloads has set.
func (t *Trace) ShowsPayloads() bool { return t.payloads.Load() }

// Attach starts to write to w what wants lets pass, or everything where it is nil,
// which costs less; wants is called on the actors' goroutines and keeps nothing of a
// record. The caller closes the Watcher, after the actors have stopped if it is to see
// all.
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
	list := t.watchers.Load()
	if list == nil {
		return
	}
	for _, w := range *list {
		if w.wants == nil || t.wanted(w, r) {
			w.putMessage(r)
		}
	}
}

// wanted reports whether a watcher with a filter wants a message.
func (t *Trace) wanted(w *Watcher, r *kernel.Record) bool {
	rec := t.spare.Get().(*messages.TraceRecord)
	defer t.spare.Put(rec)
	ofMessage(rec, r)
	return w.wants(rec)
}

// ofMessage makes rec the record of a message.
func ofMessage(rec *messages.TraceRecord, r *kernel.Record) {
	*rec = messages.TraceRecord{
		Time: r.Sent, Kind: messages.TraceMessage, Request: r.Correlation, Span: r.Span, Parent: r.Parent,
		From: r.From, To: r.To, Type: r.Type, Before: r.Before, After: r.After,
		WaitNs: r.Wait.Nanoseconds(), RanNs: r.Ran.Nanoseconds(), Bytes: r.Bytes,
	}
	if r.Panicked {
		rec.Outcome = "panic"
	}
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
		Server: messages.RecordedName(call.Server), Tool: messages.RecordedName(call.What()), Bytes: call.PayloadBytes(),
	}
	if t.payloads.Load() {
		r.Payload = keptPayload(call.Payload())
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
		Server: messages.RecordedName(report.Call.Server), Tool: messages.RecordedName(report.Call.What()),
		RanNs: report.Took.Nanoseconds(), Outcome: report.Outcome, Bytes: report.Answer.PayloadBytes(),
	}
	if report.Answer.Err != nil {
		r.Detail = report.Answer.Err.Message
	}
	if t.payloads.Load() {
		raw := report.Answer.Result
		if report.Answer.RPCError != nil {
			raw = report.Answer.RPCError
		}
		r.Payload = keptPayload(raw)
	}
	t.put(&r)
}

// keptPayload is a payload as it may wait in a buffer. It is a copy, since its bytes may
// be a small part of what was read together: of a request with a long _meta, or of a
// buffer that was made for a longer answer. A payload of more than maxCopied is not, and
// holds all of that; few fit into traceBytes.
func keptPayload(raw json.RawMessage) json.RawMessage {
	if len(raw) > maxCopied {
		return raw
	}
	return slices.Clone(raw)
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
		Time: time.Now(), Kind: messages.TraceAnswer, Request: call.Trace, From: actor, To: actor, Tool: call.Tool, Server: messages.RecordedName(p.Server),
		RanNs: p.Took.Nanoseconds(), Outcome: OutcomeOK, Detail: string(p.Decision),
	}
	if p.Package != "" {
		r.Detail += ": " + messages.RecordedName(p.Package)
	}
	if p.Err != nil {
		r.Outcome = string(p.Err.Code)
		r.Detail += ": " + p.Err.Message
	}
	t.put(&r)
}
