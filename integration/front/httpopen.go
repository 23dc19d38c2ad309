package front

import (
	"fmt"
	"net/http"
	"time"

	"golang.org/x/time/rate"
)

// open starts a session. The error is for the client.
func (h *HTTP) open(who Principal, scope string) (*httpSession, *refusal) {
	s := &httpSession{h: h, scope: scope, who: who, general: newStream(0), used: time.Now(), rate: rate.NewLimiter(rate.Limit(h.o.MaxRate), 2*h.o.MaxRate)}
	s.general.keep = true
	if scope == "" {
		s.id = newID()
	}
	h.mu.Lock()
	victim, refused := h.room(who)
	if refused == nil && !h.opener(who).Allow() {
		refused = &refusal{
			status: http.StatusTooManyRequests, code: codeTooMany, retry: time.Second,
			why: fmt.Sprintf("more than %d sessions a second are opened; keep one for your requests", h.o.MaxRate),
		}
	}
	if refused == nil {
		h.opening[who.Key]++
	}
	h.mu.Unlock()
	if refused != nil {
		return nil, refused
	}
	if victim != nil {
		victim.close("its place was needed")
	}
	err := s.start()
	h.mu.Lock()
	if h.opening[who.Key]--; h.opening[who.Key] == 0 {
		delete(h.opening, who.Key)
	}
	closing := h.closing
	var rival *httpSession
	if err == nil && !closing {
		if scope == "" {
			h.sessions[s.id] = s
		} else if rival = h.scopes[scope]; rival == nil {
			h.scopes[scope] = s
		}
	}
	h.mu.Unlock()
	switch {
	case err != nil:
		h.o.Log.Error("a session could not be opened", "error", err)
		return nil, &refusal{status: http.StatusInternalServerError, code: codeInternal, why: "the session could not be opened; the server's log says why"}
	case closing:
		s.close("the server ends")
		return nil, refuseEnding
	case rival != nil:
		s.close("another request has opened it")
		return rival, nil
	}
	return s, nil
}

// room says whether there is a place for one more session of a principal, and
// which idle one has to go for it; h.mu is held.
func (h *HTTP) room(who Principal) (victim *httpSession, refused *refusal) {
	if h.closing {
		return nil, refuseEnding
	}
	own, all, total := 0, 0, 0
	var oldest, oldestOwn *httpSession
	older := func(a, b *httpSession) *httpSession {
		if a == nil || b.lastUsed().Before(a.lastUsed()) {
			return b
		}
		return a
	}
	for s := range h.each {
		all++
		mine := s.who.Key == who.Key
		if mine {
			own++
		}
		if s.idle() >= evictable {
			if oldest = older(oldest, s); mine {
				oldestOwn = older(oldestOwn, s)
			}
		}
	}
	for key, n := range h.opening {
		if total += n; key == who.Key {
			own += n
		}
	}
	full := func(what string, most int) *refusal {
		return &refusal{
			status: http.StatusTooManyRequests, code: codeTooMany, retry: evictable,
			why: fmt.Sprintf("there are %d sessions %s, which is the most; end one with DELETE, or wait until one is idle", most, what),
		}
	}
	switch {
	case own >= h.o.MaxSessionsEach && oldestOwn == nil:
		return nil, full("of this client", h.o.MaxSessionsEach)
	case own >= h.o.MaxSessionsEach:
		victim = oldestOwn
	case all+total >= h.o.MaxSessions && oldest == nil:
		return nil, full("in all", h.o.MaxSessions)
	case all+total >= h.o.MaxSessions:
		victim = oldest
	}
	if victim != nil {
		h.forget(victim)
	}
	return victim, nil
}

// opener says how many sessions a principal may open a second; h.mu is held.
func (h *HTTP) opener(who Principal) *rate.Limiter {
	l := h.openers[who.Key]
	if l == nil {
		l = rate.NewLimiter(rate.Limit(h.o.MaxRate), 2*h.o.MaxRate)
		h.openers[who.Key] = l
	}
	return l
}

// each yields all sessions; h.mu is held.
func (h *HTTP) each(yield func(*httpSession) bool) {
	for _, all := range []map[string]*httpSession{h.sessions, h.scopes} {
		for _, s := range all {
			if !yield(s) {
				return
			}
		}
	}
}

// forget takes a session out of the tables; h.mu is held.
func (h *HTTP) forget(s *httpSession) {
	if h.sessions[s.id] == s {
		delete(h.sessions, s.id)
	}
	if s.scope != "" && h.scopes[s.scope] == s {
		delete(h.scopes, s.scope)
	}
}
