package front

import (
	"maps"
	"slices"
	"time"
)

// sweepStreams forgets streams that nobody came back to, and the oldest ones
// that are over where they are too many; s.mu is held.
func (s *httpSession) sweepStreams(now time.Time) {
	total := 0
	var over []uint64 // oldest first
	for _, n := range slices.Sorted(maps.Keys(s.streams)) {
		st := s.streams[n]
		idle, ended, size := st.rest(now)
		limit := keepUnread
		if ended && st.allSent() {
			limit = keepAnswered
		}
		if ended && idle > limit {
			s.drop(n)
			continue
		}
		total += size
		if ended && idle > 0 {
			over = append(over, n)
		}
	}
	most := maxStreamBytes
	if s.h.held.Load() > s.h.o.maxHeld {
		most = 0
	}
	for _, n := range over {
		if len(s.streams) <= maxStreams && total <= most {
			break
		}
		_, _, size := s.streams[n].rest(now)
		total -= size
		s.drop(n)
	}
}

// drop forgets a stream that was kept; s.mu is held.
func (s *httpSession) drop(number uint64) {
	st := s.streams[number]
	delete(s.streams, number)
	delete(s.live, st)
	st.discard()
}

// sweepNow is sweepStreams for who does not hold s.mu.
func (s *httpSession) sweepNow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended && len(s.streams) > 0 {
		s.sweepStreams(time.Now())
	}
}

// sweep ends the sessions that were idle for too long, or whose principal is not let
// in any more, until stop is closed.
func (h *HTTP) sweep(stop <-chan struct{}) {
	const most = 30 * time.Second
	tick := time.NewTicker(min(max(h.o.IdleTimeout/4, time.Millisecond), most))
	defer tick.Stop()
	let := time.NewTicker(h.o.KeepAlive)
	defer let.Stop()
	for {
		select {
		case <-stop:
			return
		case <-h.pressed:
			h.relieve()
		case <-let.C:
			if gone := h.gone(); len(gone) > 0 {
				h.endThose("its client is not let in any more", func(s *httpSession) bool { return gone[s.who.Key] })
			}
		case <-tick.C:
			rest := h.endThose("it was idle", func(s *httpSession) bool { return s.idle() > h.o.IdleTimeout })
			for _, s := range rest {
				s.sweepNow()
			}
		}
	}
}

// gone are the keys of the principals that are not let in any more.
func (h *HTTP) gone() map[string]bool {
	h.mu.Lock()
	all := map[string]Principal{}
	for s := range h.each {
		all[s.who.Key] = s.who
	}
	h.mu.Unlock()
	keys := map[string]bool{}
	for key, who := range all {
		if who.Still != nil && !who.Still() {
			keys[key] = true
		}
	}
	return keys
}

// endThose ends sessions, and returns the others. over is called while h.mu is held.
func (h *HTTP) endThose(why string, over func(*httpSession) bool) (rest []*httpSession) {
	h.mu.Lock()
	var ended []*httpSession
	for s := range h.each {
		if over(s) {
			ended = append(ended, s)
		} else {
			rest = append(rest, s)
		}
	}
	for _, s := range ended {
		h.forget(s)
	}
	h.mu.Unlock()
	for _, s := range ended {
		s.close(why)
	}
	return rest
}
