package traceview

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// Outcomes that this package gives; all others are the host's own.
const (
	outcomePanic = "panic"
	outcomeOK    = "ok"
	// OutcomeOpen is the outcome of a request without an answer in the trace.
	OutcomeOpen = "no answer"
	// OutcomeUnknown is the outcome of a request of version 1, which tells
	// no outcomes.
	OutcomeUnknown = "unknown"
)

// Trace is a trace that was read.
type Trace struct {
	Records  []*Record  // by run, then by time
	Requests []*Request // by run, then by start
	// Own are the records of the host's own work, which no request caused, one
	// for each run that has any. Their ID is 0.
	Own []*Request
	// Runs are the host processes that wrote the trace, in their own words;
	// "" for one whose start is not in it.
	Runs []string
	// Notes say, in sentences for the reader, what of the trace is missing or
	// could not be read.
	Notes []string
}

// Request is one request of a client and everything that it caused.
type Request struct {
	Run    int
	ID     uint64 // unique in its run
	Name   string // as a person names it: ID, or RUN/ID where there are several runs, from 1
	Server string
	Tool   string
	// Calls counts the calls that it made where it was a script, and Servers
	// names where these went, in the order of the first to each.
	Calls    int
	Servers  []string
	Start    time.Time
	Duration time.Duration
	Waited   time.Duration // of it, until a script had a process
	Outcome  string
	// Failure is what kind of failure a script had; "" where it had none, or
	// the trace does not tell.
	Failure  string
	Failed   bool // an error of any kind, also a panic on the way to a good answer
	Records  []*Record
	Hops     []Hop // its messages, in the order in which they were sent
	Messages int
	Events   int
	Slowest  int // of Hops; -1: it has none
}

// Hop is a message on its way: in the mailbox, then in the handler.
type Hop struct {
	*Record
	// Self is the time in its handler without that of the messages that were
	// handled within it.
	Self time.Duration
	// Depth is how many of the request's messages it is nested in.
	Depth int
}

// Cost is the time that the hop itself added.
func (h *Hop) Cost() time.Duration { return time.Duration(h.WaitNs) + h.Self }

// SlowestHop is the hop with the highest cost; nil where there is none.
func (r *Request) SlowestHop() *Hop {
	if r.Slowest < 0 {
		return nil
	}
	return &r.Hops[r.Slowest]
}

// Title is the request in a few words.
func (r *Request) Title() string {
	if r.ID == 0 {
		return "the host's own work"
	}
	title := "request " + r.Name
	switch {
	case r.Server != "" && r.Tool != "":
		title += "  " + r.Server + "/" + r.Tool
	case r.Server+r.Tool != "":
		title += "  " + r.Server + r.Tool
	}
	return title
}

// Find returns the request of that name: an id, or RUN/ID; "0" or "host" is
// the host's own work. Of several runs an id alone means the newest.
func (t *Trace) Find(name string) *Request {
	if all := t.named(name); len(all) > 0 {
		return all[len(all)-1]
	}
	return nil
}

// Alike returns how many requests go by a name, as Find understands it: an id alone
// may be in several runs.
func (t *Trace) Alike(name string) int { return len(t.named(name)) }

func (t *Trace) named(name string) (found []*Request) {
	name = strings.TrimPrefix(name, "#")
	run, id := -1, name
	if before, after, two := strings.Cut(name, "/"); two {
		n, err := strconv.Atoi(before)
		if err != nil {
			return nil
		}
		run, id = n-1, after
	}
	all := t.Requests
	if id == "0" || id == "host" {
		id, all = "0", t.Own
	}
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return nil
	}
	for _, r := range all {
		if r.ID == n && (run < 0 || r.Run == run) {
			found = append(found, r)
		}
	}
	return found
}

func (t *Trace) dropped() uint64 {
	var n uint64
	for _, r := range t.Records {
		if r.Kind == messages.TraceDropped {
			count := r.Count
			if first, _, _ := strings.Cut(r.Detail, " "); count == 0 { // version 1
				count, _ = strconv.ParseUint(first, 10, 32)
			}
			n += min(count, 1<<32)
		}
	}
	return n
}

// build finds the requests and what belongs to each.
func (t *Trace) build() {
	type key struct {
		run int
		id  uint64
	}
	found := map[key]*Request{}
	owners := newOwners(t.Records)
	for _, rec := range t.Records {
		if rec.Kind == messages.TraceStart {
			continue
		}
		k := key{rec.Run, owners.request(rec)}
		req := found[k]
		if req == nil {
			req = &Request{Run: k.run, ID: k.id, Name: strconv.FormatUint(k.id, 10), Slowest: -1}
			if len(t.Runs) > 1 {
				req.Name = strconv.Itoa(k.run+1) + "/" + req.Name
			}
			found[k] = req
		}
		req.Records = append(req.Records, rec)
	}
	for _, req := range found {
		req.finish()
		if req.ID == 0 {
			t.Own = append(t.Own, req)
		} else {
			t.Requests = append(t.Requests, req)
		}
	}
	order := func(x, y *Request) int {
		return cmp.Or(cmp.Compare(x.Run, y.Run), x.Start.Compare(y.Start), cmp.Compare(x.ID, y.ID))
	}
	slices.SortFunc(t.Requests, order)
	slices.SortFunc(t.Own, order)
}

// finish derives everything else from the records.
func (r *Request) finish() {
	r.Start = r.Records[0].Time
	end := r.Start
	version := 1
	var asked, answer *Record
	for _, rec := range r.Records {
		version = max(version, rec.V)
		r.Server, r.Tool = cmp.Or(r.Server, rec.Server), cmp.Or(r.Tool, rec.Tool)
		if rec.end().After(end) {
			end = rec.end()
		}
		switch rec.Kind {
		case messages.TraceMessage:
			r.Messages++
			r.Hops = append(r.Hops, Hop{Record: rec})
			r.Failed = r.Failed || rec.Outcome != ""
		case messages.TraceAnswer:
			answer = rec
		case messages.TraceRequest:
			asked, r.Start = rec, rec.Time
		case messages.TraceCall:
			r.Calls++
			r.Events++
			if rec.Server != "" && !slices.Contains(r.Servers, rec.Server) {
				r.Servers = append(r.Servers, rec.Server)
			}
		case messages.TraceDeadLetter, messages.TraceFailure:
			r.Failed = true
			r.Events++
		default:
			r.Events++
		}
	}
	switch {
	case asked != nil && asked.Tool != "": // a script has calls to others
		r.Server, r.Tool = asked.Server, asked.Tool
	case answer != nil && answer.Tool != "":
		r.Server, r.Tool = answer.Server, answer.Tool
	case r.ID > 0:
		for _, rec := range r.Records {
			r.Server = cmp.Or(r.Server, serverOf(rec.To))
		}
	}
	r.Duration = max(end.Sub(r.Start), 0)
	switch {
	case answer != nil:
		r.Outcome = cmp.Or(answer.Outcome, outcomeOK)
		r.Failed = r.Failed || r.Outcome != outcomeOK
		r.Failure = failureOf(answer)
		if answer.RanNs > 0 {
			r.Duration = time.Duration(answer.RanNs)
			r.Waited = min(time.Duration(answer.WaitNs), r.Duration)
		}
	case r.ID == 0:
	case version == 1:
		r.Outcome = OutcomeUnknown
	default:
		r.Outcome = OutcomeOpen
	}
	nest(r.Hops)
	for i := range r.Hops {
		if r.Slowest < 0 || r.Hops[i].Cost() > r.Hops[r.Slowest].Cost() {
			r.Slowest = i
		}
	}
}

// failureOf is the kind of failure that a script's answer tells at the
// beginning of its detail. A refusal of the host has none.
func failureOf(answer *Record) string {
	kind, _, told := strings.Cut(answer.Detail, ": ")
	if !told || answer.Server != "" || answer.Outcome == "" || answer.Outcome == outcomeOK || strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return ""
	}
	return kind
}

// ended is the outcome in words: with the kind of a script's failure.
func (r *Request) ended() string {
	if r.Failure == "" {
		return r.Outcome
	}
	return r.Outcome + " (" + r.Failure + ")"
}

// wentTo tells whether the request, or a call of its script, was one of a
// server that fits.
func (r *Request) wentTo(pattern string) bool {
	return globFold(pattern, r.Server) || slices.ContainsFunc(r.Servers, func(server string) bool { return globFold(pattern, server) })
}
