package front

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"
)

// The bounds of a stream over HTTP.
const (
	// maxStreamed is how many bytes may wait on the stream of one request; what
	// is no answer and comes on top is dropped.
	maxStreamed = 8 << 20
	// maxUnasked is the same for the stream of a session, where the oldest goes.
	maxUnasked = 256 << 10
	// maxKept is how many bytes that were written are kept for a client that
	// lost them on the way, beside the answer and the questions that are open.
	maxKept = 64 << 10
)

var (
	errNoStream   = errors.New("the client takes no stream, only an answer")
	errStreamOver = errors.New("the stream has ended")
	errStreamFull = errors.New("the client does not read: too much waits for it")
)

// event is one message on a stream.
type event struct {
	parts  [][]byte
	size   int
	answer bool
	open   func() bool // of a question: it has no answer yet; nil: it is none
}

// askedEvent is a question that has left the events of a stream.
type askedEvent struct {
	event
	number uint64
}

// stream is a [sink] for a response over HTTP: what was written to it and is
// not with the client. One handler at a time reads it; a client that lost its
// connection goes on with another one.
type stream struct {
	number   uint64 // in its session; 0: of what belongs to no request
	answered bool   // only the answer is wanted
	ended    func() // called once nothing follows; may be nil
	keep     bool   // what was written is kept for a while
	bill     *bill  // counts what is held; may be nil

	mu     sync.Mutex
	events []event
	first  uint64       // the number of events[0], from 1
	sent   uint64       // the number of the last event that was written
	size   int          // of all events
	asked  []askedEvent // what was written and has to be answered, from before first
	over   bool         // nothing follows
	wasCut bool         // it was ended with what it held
	since  time.Time
	reader *reader

	foreign bool // the answer is a child's error
}

var _ sink = (*stream)(nil)

// reader is one connection that a stream is written to.
type reader struct {
	wake chan struct{} // one token: there is something new
	gone chan struct{} // closed when another reader has taken over
	left chan struct{} // closed when it writes nothing any more
	stop func()        // ends a write that is under way; may be nil
}

func newStream(number uint64) *stream { return &stream{number: number, first: 1} }

// handover is how long a reader waits for the one before it, which may be
// writing to a client that does not read.
const handover = time.Second

// attach makes a reader of the stream, once the one before it has ended.
// stop ends a write of it; it may be nil.
func (s *stream) attach(ctx context.Context, stop func()) *reader {
	r := &reader{wake: make(chan struct{}, 1), gone: make(chan struct{}), left: make(chan struct{}), stop: stop}
	s.mu.Lock()
	before := s.reader
	s.reader = r
	s.mu.Unlock()
	if before == nil {
		return r
	}
	close(before.gone)
	limit := time.NewTimer(handover)
	defer limit.Stop()
	select {
	case <-before.left:
	case <-limit.C:
	case <-ctx.Done():
	}
	return r
}

// read says whether the stream has a reader.
func (s *stream) read() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reader != nil
}

// detach ends a reader.
func (s *stream) detach(r *reader) {
	close(r.left)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reader == r {
		s.reader = nil
		s.since = time.Now()
	}
}

// Write implements sink.
func (s *stream) Write(parts ...[]byte) error {
	if s.answered {
		return errNoStream
	}
	return s.put(event{}, parts)
}

// Ask is Write for a question to the client, which is kept for as long as it is open: who
// lost it on the way would never answer it.
func (s *stream) Ask(open func() bool, parts ...[]byte) error { return s.put(event{open: open}, parts) }

// Answer implements sink.
func (s *stream) Answer(parts ...[]byte) error { return s.put(event{answer: true}, parts) }

// setForeign says that the answer, which follows, is an error of a child's.
func (s *stream) setForeign() {
	s.mu.Lock()
	s.foreign = true
	s.mu.Unlock()
}

func (s *stream) isForeign() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.foreign
}

// Hold implements sink; each response has a connection of its own, so that
// nothing is won by waiting.
func (s *stream) Hold(line []byte) { _ = s.put(event{answer: true}, [][]byte{line}) } // who is gone needs no answer

// Release implements sink.
func (s *stream) Release() {}

// Drop implements sink.
func (s *stream) Drop() { s.end() }

// end says that nothing follows.
func (s *stream) end() {
	s.mu.Lock()
	s.finish()
	s.mu.Unlock()
	if s.ended != nil {
		s.ended()
	}
}

// finish is end; s.mu is held.
func (s *stream) finish() {
	if !s.over {
		s.over = true
		s.since = time.Now()
		s.settle(func(askedEvent) bool { return false })
	}
	s.signal()
}

func (s *stream) signal() {
	if s.reader == nil {
		return
	}
	select {
	case s.reader.wake <- struct{}{}:
	default:
	}
}

func (s *stream) put(e event, parts [][]byte) error {
	var small []byte
	for _, p := range parts {
		e.size += len(p)
		if len(p) < largePart {
			small = append(small, p...)
			continue
		}
		if len(small) > 0 {
			e.parts = append(e.parts, small)
		}
		e.parts, small = append(e.parts, p), nil
	}
	if len(small) > 0 {
		e.parts = append(e.parts, small)
	}
	if err := s.add(e); err != nil {
		return err
	}
	if e.answer && s.ended != nil {
		s.ended()
	}
	return nil
}

func (s *stream) add(e event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return errStreamOver
	}
	s.settle(askedEvent.isOpen)
	if !e.answer && s.number != 0 && (s.size+e.size > maxStreamed || !s.bill.room(e.size)) {
		return errStreamFull
	}
	s.events = append(s.events, e)
	s.size += e.size
	s.bill.add(e.size)
	for s.number == 0 && s.size > maxUnasked && len(s.events) > 1 {
		s.drop()
	}
	if e.answer {
		s.finish()
	}
	s.signal()
	return nil
}

// drop forgets the oldest event; s.mu is held.
func (s *stream) drop() {
	s.size -= s.events[0].size
	s.bill.add(-s.events[0].size)
	s.events[0] = event{}
	s.events = s.events[1:]
	s.sent = max(s.sent, s.first)
	s.first++
	if len(s.events) == 0 {
		s.events = nil
	}
}

func (a askedEvent) isOpen() bool { return a.open() }

// settle forgets the questions from before first that need not be kept; s.mu is held.
func (s *stream) settle(keep func(a askedEvent) bool) {
	s.asked = slices.DeleteFunc(s.asked, func(a askedEvent) bool {
		if keep(a) {
			return false
		}
		s.bill.add(-a.size)
		return true
	})
}

// next returns the events behind the one with the number from, the number of
// the first of them, and whether nothing will follow them. Where there was no
// such number, these are all that are kept, or none. What is gone is passed over, and of
// that each open question returned alone.
func (s *stream) next(from uint64) (events []event, first uint64, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(askedEvent.isOpen)
	for _, a := range s.asked {
		if a.number > from {
			return []event{a.event}, a.number, false
		}
	}
	first = max(min(from, s.first+uint64(len(s.events))-1)+1, s.first)
	return append(events, s.events[first-s.first:]...), first, s.over
}

// lastSent is the number of the last event that was written to a connection.
func (s *stream) lastSent() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// allSent says whether everything was written to a connection.
func (s *stream) allSent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent+1 >= s.first+uint64(len(s.events))
}

// written says that all events up to this number are with the network.
func (s *stream) written(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = max(s.sent, number)
	for len(s.events) > 0 && s.first <= s.sent && (!s.keep || s.size > maxKept && !s.events[0].answer) {
		e, number := s.events[0], s.first
		s.drop()
		if s.keep && !s.over && e.open != nil {
			s.asked = append(s.asked, askedEvent{e, number})
			s.bill.add(e.size)
		}
	}
	s.settle(askedEvent.isOpen)
}

// rest says how long the stream has had no reader, or has been over, and how
// much it holds.
func (s *stream) rest(now time.Time) (idle time.Duration, over bool, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size = s.size
	for _, a := range s.asked {
		size += a.size
	}
	if s.reader != nil || s.since.IsZero() {
		return 0, s.over, size
	}
	return now.Sub(s.since), s.over, size
}

// code returns the code of the JSON-RPC error that answers the request with
// this id, or 0.
func (e *event) code(id []byte) int {
	if len(e.parts) == 0 {
		return 0
	}
	rest, ok := bytes.CutPrefix(e.parts[0], appendHead(nil, id, `,"error":{"code":`))
	if !ok {
		return 0
	}
	end := bytes.IndexAny(rest, ",}")
	code, err := strconv.Atoi(string(rest[:max(end, 0)]))
	if err != nil {
		return 0
	}
	return code
}
