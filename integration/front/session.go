package front

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"

	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/messages"
)

// ErrDuplicateID refuses a request whose id is that of another one that is
// still in flight. It maps to the JSON-RPC error -32600.
var ErrDuplicateID = errors.New("another request with this id is still in flight; use each id once")

// ErrCancelled refuses a request that its client cancelled before it could be
// registered. Such a request gets no answer.
var ErrCancelled = errors.New("the request was cancelled before it began")

// maxEarlyCancels bounds the cancellations that are remembered for requests
// that are still being parsed.
const maxEarlyCancels = 1024

// Session is the in-flight table of one client connection: which request ids
// are open, and which were cancelled. It is not safe for use from several
// goroutines: whoever owns it serialises the calls.
type Session struct {
	entries map[string]*Entry
	early   map[string]uint64 // the last [Session.BeginParse] before the cancellation
	parsing int
	parses  uint64
}

// NewSession returns an empty table.
func NewSession() *Session {
	return &Session{entries: make(map[string]*Entry), early: make(map[string]uint64)}
}

// Entry is one request in flight. Its fields are set before it is registered
// and not changed afterwards, where nothing else is said.
type Entry struct {
	ID    json.RawMessage // as the client wrote it
	Call  uint64
	Token json.RawMessage // the client's progress token; nil: it wants none
	Era   messages.Era
	// Stream marks a request that lives until it is cancelled, such as
	// subscriptions/listen; nobody waits for its end.
	Stream bool
	// Stop ends the work on a request that mcp-go answers; nil for calls of
	// the spliced tool, which are cancelled through the engine.
	Stop context.CancelFunc
	// Parse is what [Session.BeginParse] returned for the request; 0: it is registered
	// before anything that came behind it is looked at.
	Parse uint64

	out       sink            // where its answer goes, and what belongs to it
	params    json.RawMessage // of the request, where it is one of the newer protocol
	work      *work           // what it began and others may take over; guarded by [Parked]
	passed    bool            // no tools/call: a failure is an error of the protocol
	reads     bool            // it changes nothing, and may be sent again
	exposedAs string          // the name by which it calls a tool; "": that of the tool
	key       string          // in the table; "": that of the ID, set by Register
	free      func()          // gives back the room of its message, once it is over; nil: it has none. Guarded like the table
	cancelled atomic.Bool
}

// Cancelled returns the flag that [Session.Cancel] sets. It may be read from
// any goroutine.
func (e *Entry) Cancelled() *atomic.Bool { return &e.cancelled }

// transport is how the request came.
func (e *Entry) transport() messages.Transport {
	if _, overHTTP := e.out.(*stream); overHTTP {
		return messages.TransportHTTP
	}
	return messages.TransportStdio
}

// Register adds a request. It returns [ErrDuplicateID] or [ErrCancelled] where
// the request must not be started.
func (s *Session) Register(e *Entry) error {
	key := e.key
	if key == "" {
		key = idKey(e.ID)
	}
	if last, ok := s.early[key]; ok && e.Parse != 0 && e.Parse <= last {
		delete(s.early, key)
		return ErrCancelled
	}
	if s.entries[key] != nil {
		return ErrDuplicateID
	}
	e.key = key
	s.entries[key] = e
	return nil
}

// Cancel takes the request with this id out of the table and marks it; its
// answer is no longer wanted. It returns nil where there is no such request.
func (s *Session) Cancel(id json.RawMessage) *Entry {
	key := idKey(id)
	e := s.entries[key]
	if e == nil {
		if s.parsing > 0 && len(s.early) < maxEarlyCancels {
			s.early[key] = s.parses
		}
		return nil
	}
	s.GiveUp(e)
	return e
}

// GiveUp is Cancel for a request that is known. It returns false where the
// request has been answered or cancelled.
func (s *Session) GiveUp(e *Entry) bool {
	if !s.Finish(e) {
		return false
	}
	e.cancelled.Store(true)
	return true
}

// Finish takes the request out of the table before its answer is written. It
// returns false where the answer is not wanted, because the request was
// cancelled or has been answered.
func (s *Session) Finish(e *Entry) bool {
	if s.entries[e.key] != e {
		return false
	}
	delete(s.entries, e.key)
	if e.free != nil {
		e.free()
		e.free = nil
	}
	return true
}

// Live says whether the request still waits for its answer.
func (s *Session) Live(e *Entry) bool { return s.entries[e.key] == e }

// Len is how many requests are in flight.
func (s *Session) Len() int { return len(s.entries) }

// Entries returns all requests in flight, in no particular order.
func (s *Session) Entries() []*Entry {
	all := make([]*Entry, 0, len(s.entries))
	for _, e := range s.entries {
		all = append(all, e)
	}
	return all
}

// BeginParse says that a request has been read whose id is not known yet.
// Until the matching [Session.EndParse], cancellations of unknown ids are
// remembered for it. The number is for its [Entry]: a request that came behind the
// cancellation may have its id again.
func (s *Session) BeginParse() (number uint64) {
	s.parsing++
	s.parses++
	return s.parses
}

// EndParse says that the request was registered or refused.
func (s *Session) EndParse() {
	if s.parsing--; s.parsing == 0 && len(s.early) > 0 {
		clear(s.early)
	}
}

// idKey is the id as the table knows it: two ways to write the same string are
// one id. A number is known by its text, since clients repeat it as it was.
func idKey(id json.RawMessage) string {
	for _, c := range id {
		if c == '\\' {
			if s, err := jsonrpc.Unquote(id); err == nil {
				return string(jsonrpc.AppendQuote(nil, s))
			}
			break
		}
	}
	return string(id)
}
