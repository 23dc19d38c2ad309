package traceview

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/metamcp/metamcp/messages"
)

// Record is one record of a trace, whose texts are safe to show. It is never
// changed once a [Trace] holds it.
type Record struct {
	messages.TraceRecord
	// Run numbers the host process that wrote it, from 0: a file may hold
	// several, each of which counts its requests from 1.
	Run int
}

// Message tells whether the record is a message that an actor handled, and not
// an event.
func (r *Record) Message() bool { return r.Kind == messages.TraceMessage }

// handled is when its handling began and ended.
func (r *Record) handled() (from, to time.Time) {
	from = r.Time.Add(time.Duration(r.WaitNs))
	return from, from.Add(time.Duration(r.RanNs))
}

// payload is the arguments or the result, where the host wrote them; it may be
// cut.
func (r *Record) payload() string {
	var text string
	if len(r.Payload) == 0 || json.Unmarshal(r.Payload, &text) != nil {
		return ""
	}
	return text
}

// end is when what the record tells was over.
func (r *Record) end() time.Time {
	if r.Message() {
		_, to := r.handled()
		return to
	}
	return r.Time
}

// Builder collects records into a [Trace]. It belongs to one goroutine.
type Builder struct {
	limits   Limits
	records  []*Record // from oldest on, the newest that the limits allow
	oldest   int
	bytes    int64 // of records
	taken    int   // records that were added, including those left out since
	leftOut  int
	names    map[string]string // one copy of each text that comes again
	runs     []string          // what each run's start says
	hosts    map[int]host      // by process; 0: those that do not say theirs
	problems problems
	seen     []byte // the beginning of what was no record
	source   string
	sources  int // how many files were begun
}

// host is a process that wrote to the trace, as several may at a time.
type host struct {
	run    int // that its records belong to
	source int // the file that has its latest record
}

// maxHosts bounds the processes that are told apart.
const maxHosts = 1 << 12

// maxNames bounds the texts of which one copy is kept.
const maxNames = 1 << 16

// longestTime bounds what is believed of a duration, in nanoseconds: about
// three years, so that no sum of them overflows.
const longestTime = int64(1e17)

// firstOwn is the first number that no request of a client's has. Earlier builds wrote
// late answers with the id that the server was given, which is above it for what the host
// itself had asked: these belong to its own work.
const firstOwn = uint64(1) << 47

// NewBuilder returns a builder without records.
func NewBuilder(limits Limits) *Builder {
	return &Builder{limits: limits.orDefaults(), names: map[string]string{}, hosts: map[int]host{}}
}

// Add adds one record. It keeps no reference to r's payload.
func (b *Builder) Add(r messages.TraceRecord) {
	rec := &Record{TraceRecord: b.safe(r)}
	rec.Run = b.runOf(rec)
	b.taken++
	b.seen = nil
	b.records = append(b.records, rec)
	b.bytes += size(rec)
	for len(b.records)-b.oldest > 1 && (len(b.records)-b.oldest > b.limits.Records || b.bytes > b.limits.Bytes) {
		b.bytes -= size(b.records[b.oldest])
		b.records[b.oldest] = nil
		b.oldest++
		b.leftOut++
	}
	if b.oldest > 1024 && b.oldest > len(b.records)/2 {
		b.records = slices.Delete(b.records, 0, b.oldest)
		b.oldest = 0
	}
}

// runOf is the run that a record belongs to: the latest one of its host. A start
// opens one, but the first that a host has in a rotated file is of the run that goes
// on in it.
func (b *Builder) runOf(rec *Record) int {
	pid := rec.PID
	h, known := b.hosts[pid]
	if !known && len(b.hosts) >= maxHosts {
		pid = 0
		h, known = b.hosts[pid]
	}
	starts := rec.Kind == messages.TraceStart
	if !known || starts && (h.source == b.sources || b.runs[h.run] != rec.Detail) {
		h.run = len(b.runs)
		who := "" // what came before any start
		if starts {
			who = rec.Detail
		}
		b.runs = append(b.runs, who)
	}
	h.source = b.sources
	b.hosts[pid] = h
	return h.run
}

// size is about what a record takes. Texts that are shared count as nothing.
func size(r *Record) int64 {
	return int64(unsafe.Sizeof(*r)) + int64(unsafe.Sizeof(r)) + int64(len(r.Detail)) + int64(len(r.Payload))
}

// safe makes a record's texts harmless and its numbers believable.
func (b *Builder) safe(r messages.TraceRecord) messages.TraceRecord {
	for _, name := range []*string{&r.Kind, &r.From, &r.To, &r.Type, &r.Before, &r.After, &r.Outcome, &r.Server, &r.Tool} {
		*name = b.name(*name)
	}
	r.Detail = strings.Clone(clean(r.Detail, maxDetail))
	if len(r.Payload) > 0 {
		// What was cut is JSON no more, but a text that tells it is.
		r.Payload, _ = json.Marshal(clean(string(r.Payload), maxPayload))
	}
	if r.Request >= firstOwn {
		r.Request = 0
	}
	r.Time = r.Time.UTC()
	r.WaitNs = min(max(r.WaitNs, 0), longestTime)
	r.RanNs = min(max(r.RanNs, 0), longestTime)
	r.Bytes = max(r.Bytes, 0)
	return r
}

// name returns the one copy of a text.
func (b *Builder) name(text string) string {
	if text == "" {
		return ""
	}
	if known, ok := b.names[text]; ok {
		return known
	}
	if len(b.names) >= maxNames {
		clear(b.names)
	}
	safe := strings.Clone(clean(text, maxName))
	if len(text) <= maxName {
		b.names[strings.Clone(text)] = safe
	}
	return safe
}

// Trace returns what was added so far. The builder may go on.
func (b *Builder) Trace() *Trace {
	records := slices.Clone(b.records[b.oldest:])
	slices.SortStableFunc(records, func(x, y *Record) int {
		if x.Run != y.Run {
			return x.Run - y.Run
		}
		return x.Time.Compare(y.Time)
	})
	t := &Trace{Records: records, Runs: slices.Clone(b.runs), Notes: b.problems.tell()}
	if len(t.Runs) == 0 {
		t.Runs = []string{""}
	}
	if b.leftOut > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("the oldest %s left out, to bound the memory; the beginning of some requests may be missing", were(b.leftOut, "record")))
	}
	if n := t.dropped(); n > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("the host itself dropped %s, since its buffer was full: some messages are missing", plural(int(n), "record")))
	}
	t.build()
	return t
}

func were(n int, what string) string {
	if n == 1 {
		return "record was"
	}
	return plural(n, what) + " were"
}
