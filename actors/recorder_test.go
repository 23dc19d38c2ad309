package actors

import (
	"strings"
	"sync"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// recorder is a tracer that keeps events and failures, and the transitions for
// comparison with the table.
type recorder struct {
	mu       sync.Mutex
	events   []event
	failures []string
}

type event struct {
	actor, kind, detail string
	request             uint64
}

func (r *recorder) Message(*kernel.Record) {}
func (r *recorder) DeadLetter(string, any) {}
func (r *recorder) Failure(a, reason, d string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, a+": "+reason+" → "+d)
}

func (r *recorder) Event(e *kernel.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event{e.Actor, e.Kind, e.Detail, e.Correlation})
}

func (r *recorder) count(kind, part string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, e := range r.events {
		if e.kind == kind && strings.Contains(e.detail, part) {
			n++
		}
	}
	return n
}

// history is what happened to the actors of one server, newest last.
func (r *recorder) history(server string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	const enough = 60
	var lines []string
	for _, e := range r.events {
		if strings.Contains(e.actor, "/"+server) {
			lines = append(lines, e.actor+": "+e.kind+" "+e.detail)
		}
	}
	lines = append(lines, r.failures...)
	return strings.Join(lines[max(0, len(lines)-enough):], "\n")
}

// specTable is the table of the specification, section 3, and not that of the
// code.
var specTable = map[string][]string{
	"IDLE":       {"CONNECTING", "ACTIVE", "CLOSED"},
	"CONNECTING": {"ACTIVE", "FAILED", "CLOSED"},
	"ACTIVE":     {"IDLE", "FAILED", "CLOSED"},
	"FAILED":     {"CONNECTING", "CLOSED"},
	"CLOSED":     nil,
}

// requests are those with which events of a kind are on record, in their order.
func (r *recorder) requests(kind string) (found []uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.kind == kind {
			found = append(found, e.request)
		}
	}
	return found
}

// check holds every transition that was seen against the specification, and
// demands that each connection begins where the last one left it. No event, of
// whatever kind, is of a request with a number that no client's request has.
func (r *recorder) check(t reporter) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	at := map[string]string{}
	for _, e := range r.events {
		if e.request > callMask {
			t.Errorf("%s: %s %q is on record as of request %d, which is none of a client's", e.actor, e.kind, e.detail, e.request)
		}
		if e.kind != "transition" {
			continue
		}
		from, rest, ok := strings.Cut(e.detail, " → ")
		to, _, _ := strings.Cut(rest, " ")
		if !ok || !has(specTable[from], to) {
			t.Errorf("%s went %q, which the specification does not allow", e.actor, e.detail)
		}
		was, seen := at[e.actor]
		if !seen {
			was = supervision.StateName(messages.StateIdle)
		}
		if was != from {
			t.Errorf("%s was %s and left %s", e.actor, was, from)
		}
		at[e.actor] = to
	}
}
