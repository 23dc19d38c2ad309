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
			delete(s.streams, n)
			continue
		}
		total += size
		if ended && idle > 0 {
			over = append(over, n)
		}
	}
	most := maxStreamBytes
	if s.h.held.Load()+int64(total-s.held) > maxHeld {
		most = 0
	}
	for _, n := range over {
		if len(s.streams) <= maxStreams && total <= most {
			break
		}
		_, _, size := s.streams[n].rest(now)
		total -= size
		delete(s.streams, n)
	}
	s.h.held.Add(int64(total - s.held))
	s.held = total
}

// sweepNow is sweepStreams for who does not hold s.mu.
func (s *httpSession) sweepNow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended && len(s.streams) > 0 {
		s.sweepStreams(time.Now())
	}
}

// sweep ends the sessions that were idle for too long, until stop is closed.
func (h *HTTP) sweep(stop <-chan struct{}) {
	const most = 30 * time.Second
	tick := time.NewTicker(min(max(h.o.IdleTimeout/4, time.Millisecond), most))
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			h.mu.Lock()
			var idle []*httpSession
			for s := range h.each {
				if s.idle() > h.o.IdleTimeout {
					idle = append(idle, s)
				}
			}
			for _, s := range idle {
				h.forget(s)
			}
			rest := slices.Collect(h.each)
			h.mu.Unlock()
			for _, s := range idle {
				s.close("it was idle")
			}
			for _, s := range rest {
				s.sweepNow()
			}
		}
	}
}
