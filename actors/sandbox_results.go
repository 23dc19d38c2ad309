package actors

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"
)

// Bounds of the results that are kept for clients.
const (
	maxKept        = 20       // of one session
	maxKeptSession = 32 << 20 // bytes
	maxKeptAll     = 128 << 20
	keptFor        = 30 * time.Minute
)

// keptResults are values that were too long for an answer, for later scripts of
// the same client. It belongs to the sandbox's actor.
type keptResults struct {
	sessions map[uint64]*keptSession
	bytes    int
}

type keptSession struct {
	last  int // number of the newest
	list  []keptResult
	bytes int
	of    uint64 // the sharer
}

type keptResult struct {
	id    string
	value json.RawMessage
	at    time.Time
}

// keep returns the id under which the value is kept, "" where it is too long or
// nobody's: what has no session could be read by whatever else has none.
// The oldest of the session make room for it, then those of the sharer that has most,
// which may have many sessions.
func (k *keptResults) keep(session, sharer uint64, value json.RawMessage, now time.Time) string {
	if session == 0 || len(value) > maxKeptSession {
		return ""
	}
	if k.sessions == nil {
		k.sessions = map[uint64]*keptSession{}
	}
	s := k.sessions[session]
	if s == nil {
		s = &keptSession{of: sharer}
		k.sessions[session] = s
	}
	for len(s.list) >= maxKept || s.bytes+len(value) > maxKeptSession {
		k.dropOldest(s)
	}
	for k.bytes+len(value) > maxKeptAll {
		k.dropOldest(k.oldestOf(k.most(s.of, len(value))))
	}
	s.last++
	r := keptResult{"r" + strconv.Itoa(s.last), value, now}
	s.list = append(s.list, r)
	s.bytes += len(value)
	k.bytes += len(value)
	return r.id
}

// most is who has most bytes, and something of it is kept already; among equals, who
// has the oldest value. more bytes are to come to one of them.
func (k *keptResults) most(of uint64, more int) uint64 {
	bytes, oldest := map[uint64]int{of: more}, map[uint64]time.Time{}
	for _, s := range k.sessions {
		if len(s.list) == 0 {
			continue
		}
		bytes[s.of] += s.bytes
		if at, ok := oldest[s.of]; !ok || s.list[0].at.Before(at) {
			oldest[s.of] = s.list[0].at
		}
	}
	var most uint64
	for who, at := range oldest {
		if most == 0 || bytes[who] > bytes[most] || bytes[who] == bytes[most] && at.Before(oldest[most]) {
			most = who
		}
	}
	return most
}

// oldestOf is the session with the oldest value of one client; there is one.
func (k *keptResults) oldestOf(of uint64) *keptSession {
	var found *keptSession
	for _, s := range k.sessions {
		if s.of == of && len(s.list) > 0 && (found == nil || s.list[0].at.Before(found.list[0].at)) {
			found = s
		}
	}
	return found
}

func (k *keptResults) dropOldest(s *keptSession) {
	n := len(s.list[0].value)
	s.list = slices.Delete(s.list, 0, 1)
	s.bytes -= n
	k.bytes -= n
}

// get returns a value, nil where there is none.
func (k *keptResults) get(session uint64, id string) json.RawMessage {
	if s := k.sessions[session]; s != nil {
		for _, r := range s.list {
			if r.id == id {
				return r.value
			}
		}
	}
	return nil
}

// ids are those of a session, oldest first.
func (k *keptResults) ids(session uint64) []string {
	s := k.sessions[session]
	if s == nil {
		return nil
	}
	ids := make([]string, len(s.list))
	for i, r := range s.list {
		ids[i] = r.id
	}
	return ids
}

// forget drops what a session has.
func (k *keptResults) forget(session uint64) {
	if s := k.sessions[session]; s != nil {
		k.bytes -= s.bytes
		delete(k.sessions, session)
	}
}

// expire drops what is too old, and says when to look again; 0: nothing is
// left.
func (k *keptResults) expire(now time.Time) time.Duration {
	var next time.Duration
	for _, s := range k.sessions {
		for len(s.list) > 0 && now.Sub(s.list[0].at) >= keptFor {
			k.dropOldest(s)
		}
		if len(s.list) > 0 {
			if in := keptFor - now.Sub(s.list[0].at); next == 0 || in < next {
				next = in
			}
		}
	}
	return next
}
