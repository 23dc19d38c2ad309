package actors

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/supervision/kernel"
)

// TraceFormat is how a trace is written.
type TraceFormat uint8

// The formats of a trace.
const (
	TraceText  TraceFormat = iota // one aligned line a message, for people
	TraceJSONL                    // one JSON object a line; see docs/TRACE.md
)

// traceBuffer bounds the records that wait to be written. An actor never waits
// for a trace: what finds no room is dropped and counted.
const traceBuffer = 16384

// Trace writes every message between actors, and every event, to a writer of
// its own goroutine. It holds no arguments and no results: only names, sizes
// of time and states.
type Trace struct {
	w       *bufio.Writer
	format  TraceFormat
	start   time.Time
	records chan traceRecord
	dropped atomic.Uint64
	stop    chan struct{}
	done    chan struct{} // closed when the writer has ended
	err     error         // of the writer's goroutine, read after Close
}

// traceRecord is one line of a trace. It is copied through the buffer, so it
// holds no pointer into a message.
type traceRecord struct {
	kernel.Record
	kind   string // "message", "dead-letter", "failure", or an event's name
	detail string
}

// NewTrace starts the writer. Install it with System.SetTracer, and Close it
// after the actors have stopped.
func NewTrace(w io.Writer, format TraceFormat) *Trace {
	t := &Trace{
		w: bufio.NewWriter(w), format: format, start: time.Now(),
		records: make(chan traceRecord, traceBuffer), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go t.run()
	return t
}

// Close writes what is buffered and returns the first error of the writer.
// Where that is not over when ctx ends it says so; the goroutine is left behind
// and ends with the write that hangs. It is called once.
func (t *Trace) Close(ctx context.Context) error {
	close(t.stop)
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return fmt.Errorf("the end of the trace was not written, since nobody takes it: %w", ctx.Err())
	}
}

func (t *Trace) put(r traceRecord) {
	select {
	case t.records <- r:
	default:
		t.dropped.Add(1)
	}
}

// Message implements kernel.Tracer.
func (t *Trace) Message(r *kernel.Record) { t.put(traceRecord{Record: *r, kind: "message"}) }

// Event implements kernel.Tracer.
func (t *Trace) Event(actor, kind, detail string, correlation uint64) {
	t.put(traceRecord{Record: kernel.Record{To: actor, Sent: time.Now(), Correlation: correlation}, kind: kind, detail: detail})
}

// DeadLetter implements kernel.Tracer.
func (t *Trace) DeadLetter(to string, msg any) {
	t.put(traceRecord{Record: kernel.Record{To: to, Type: fmt.Sprintf("%T", msg), Sent: time.Now()}, kind: "dead-letter"})
}

// Failure implements kernel.Tracer.
func (t *Trace) Failure(actor, reason, directive string) {
	t.put(traceRecord{Record: kernel.Record{To: actor, Sent: time.Now()}, kind: "failure", detail: directive + ": " + reason})
}

func (t *Trace) run() {
	defer close(t.done)
	for {
		select {
		case r := <-t.records:
			t.write(&r)
			if len(t.records) == 0 {
				t.flush()
			}
		case <-t.stop:
			for len(t.records) > 0 {
				r := <-t.records
				t.write(&r)
			}
			t.flush()
			return
		}
	}
}

func (t *Trace) flush() {
	t.reportDrops()
	if err := t.w.Flush(); err != nil && t.err == nil {
		t.err = fmt.Errorf("write the trace: %w", err)
	}
}

func (t *Trace) reportDrops() {
	if n := t.dropped.Swap(0); n > 0 {
		t.write(&traceRecord{Record: kernel.Record{To: "trace", Sent: time.Now()}, kind: "dropped", detail: fmt.Sprint(n, " records found no room")})
	}
}

func (t *Trace) write(r *traceRecord) {
	if t.err != nil {
		return // a full disk ends the trace, not the host
	}
	if t.format == TraceJSONL {
		t.writeJSON(r)
		return
	}
	at := r.Sent.Sub(t.start)
	if r.kind != "message" {
		fmt.Fprintf(t.w, "%12s  %-6s  * %s %s %s\n", at.Round(time.Microsecond), request(r.Correlation), r.To, r.kind, r.detail+r.Type)
		return
	}
	from := r.From
	if from == "" {
		from = "·"
	}
	fmt.Fprintf(t.w, "%12s  %-6s  %s → %s  %s", at.Round(time.Microsecond), request(r.Correlation), from, r.To, r.Type)
	if r.Before != "" {
		fmt.Fprintf(t.w, "  [%s", r.Before)
		if r.After != r.Before {
			fmt.Fprintf(t.w, " → %s", r.After)
		}
		fmt.Fprint(t.w, "]")
	}
	fmt.Fprintf(t.w, "  wait %s  ran %s", r.Received.Sub(r.Sent).Round(time.Microsecond), r.Handled.Sub(r.Received).Round(time.Microsecond))
	if r.Panicked {
		fmt.Fprint(t.w, "  PANIC")
	}
	fmt.Fprintln(t.w)
}

func request(correlation uint64) string {
	if correlation == 0 {
		return ""
	}
	return fmt.Sprintf("#%d", correlation)
}

// traceLine is the JSON of one record.
type traceLine struct {
	V       int    `json:"v"` // version of this format
	Time    string `json:"time"`
	Kind    string `json:"kind"`
	Request uint64 `json:"request,omitempty"`
	From    string `json:"from,omitempty"`
	To      string `json:"to"`
	Type    string `json:"type,omitempty"`
	Before  string `json:"before,omitempty"`
	After   string `json:"after,omitempty"`
	WaitNs  int64  `json:"waitNs,omitempty"`
	RanNs   int64  `json:"ranNs,omitempty"`
	Panic   bool   `json:"panic,omitempty"`
	Detail  string `json:"detail,omitempty"`
}

func (t *Trace) writeJSON(r *traceRecord) {
	l := traceLine{
		V: 1, Time: r.Sent.UTC().Format(time.RFC3339Nano), Kind: r.kind, Request: r.Correlation,
		From: r.From, To: r.To, Type: r.Type, Before: r.Before, After: r.After, Panic: r.Panicked, Detail: r.detail,
	}
	if r.kind == "message" {
		l.WaitNs, l.RanNs = r.Received.Sub(r.Sent).Nanoseconds(), r.Handled.Sub(r.Received).Nanoseconds()
	}
	if err := json.NewEncoder(t.w).Encode(l); err != nil && t.err == nil {
		t.err = fmt.Errorf("write the trace: %w", err)
	}
}
