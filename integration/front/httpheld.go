package front

import (
	"sync/atomic"
	"time"
)

// The bounds of what streams hold for clients that do not read it.
const (
	// maxHeld is how much the streams of all sessions hold together, and
	// maxHeldEach those of one; what is no answer and comes on top is dropped.
	// Where answers go over maxHeld, streams end; see relieve.
	maxHeld     = 256 << 20
	maxHeldEach = 64 << 20
)

// bill counts what the streams of a session hold, and those of all sessions.
type bill struct {
	own, all *atomic.Int64
	press    chan<- struct{} // one token: there is more in all than there may be
	// most is how much all may hold, and each how much one.
	most, each int64
}

// add counts bytes that come or go.
func (b *bill) add(n int) {
	if b == nil {
		return
	}
	b.own.Add(int64(n))
	if b.all.Add(int64(n)) > b.most {
		b.pressed()
	}
}

func (b *bill) pressed() {
	select {
	case b.press <- struct{}{}:
	default:
	}
}

// room says whether n more bytes may be held that are no answer.
func (b *bill) room(n int) bool {
	if b == nil {
		return true
	}
	if b.all.Load()+int64(n) > b.most {
		b.pressed()
		return false
	}
	return b.own.Load()+int64(n) <= b.each
}

// relieve ends streams until the front holds three quarters of what it may: always
// the largest of the session that holds most. The stream of a session itself only
// loses what it holds.
func (h *HTTP) relieve() {
	for h.held.Load() > h.o.maxHeld/4*3 {
		var most *httpSession
		h.mu.Lock()
		for s := range h.each {
			if most == nil || s.holds.Load() > most.holds.Load() {
				most = s
			}
		}
		h.mu.Unlock()
		if most == nil || !most.cutLargest() {
			return
		}
	}
}

// cutLargest takes from the stream that holds most what it holds, and ends it unless
// it is that of the session; false: none holds anything.
func (s *httpSession) cutLargest() bool {
	largest := s.general
	_, _, size := largest.rest(time.Time{})
	s.mu.Lock()
	for st := range s.live {
		if _, _, n := st.rest(time.Time{}); n > size {
			largest, size = st, n
		}
	}
	s.mu.Unlock()
	switch {
	case size == 0:
		return false
	case largest == s.general:
		largest.shed()
		return true
	}
	largest.cut()
	s.h.o.Log.Warn("a stream was ended whose client does not read it: too much waits for clients",
		"session", s.c.opts.Session, "client", s.who.Name, "bytes", size)
	return true
}

// cut ends a stream with what it holds, also under the hands of its reader.
func (s *stream) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.empty()
	s.wasCut = true
	if r := s.reader; r != nil {
		s.reader = nil
		close(r.gone)
		if r.stop != nil {
			r.stop()
		}
	}
}

// discard forgets what a stream holds that nobody comes back for.
func (s *stream) discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.empty()
}

// shed drops all events of a stream that goes on.
func (s *stream) shed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropAll()
}

// empty ends the stream and drops all events; s.mu is held.
func (s *stream) empty() {
	s.finish()
	s.dropAll()
}

// dropAll forgets all events; s.mu is held.
func (s *stream) dropAll() {
	for len(s.events) > 0 {
		s.drop()
	}
	s.settle(func(askedEvent) bool { return false })
}

// lostToBound says whether the stream was cut.
func (s *stream) lostToBound() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wasCut
}

// track counts what a stream holds, until forgotten.
func (s *httpSession) track(st *stream) {
	st.bill = s.bill
	if s.live == nil {
		s.live = map[*stream]struct{}{}
	}
	s.live[st] = struct{}{}
}

// single returns a stream for the response to a request of a modern client.
func (s *httpSession) single() *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := newStream(1)
	s.track(st)
	return st
}

// release forgets a stream that nobody comes back for.
func (s *httpSession) release(st *stream) {
	s.mu.Lock()
	kept := !s.ended && (st == s.general || s.streams[st.number] == st)
	if !kept {
		delete(s.live, st)
	}
	s.mu.Unlock()
	if !kept {
		st.discard()
	}
}
