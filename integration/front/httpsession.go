package front

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/metamcp/metamcp/integration/jsonrpc"
)

// The bounds of a session over HTTP, beside those of [HTTPOptions].
const (
	// sessionIDBytes is the size of a session's id: 256 bits.
	sessionIDBytes = 32
	// maxStreams is how many streams of requests one session keeps for a client
	// that may come back for them.
	maxStreams = 64
	// maxStreamBytes is how much these hold together.
	maxStreamBytes = 16 << 20
	// keepAnswered is how long a stream is kept after its answer was written,
	// and keepUnread how long when nobody has read it.
	keepAnswered = time.Minute
	keepUnread   = 5 * time.Minute
	// notificationsOverHTTP is how many notifications mcp-go can have on their
	// way to one client; there may be thousands of clients.
	notificationsOverHTTP = 16
	// evictable is how long a session must have been idle to be ended for a new
	// one.
	evictable = time.Minute
)

// httpSession is one client over HTTP. A legacy one has an id that the client
// was told; the requests of modern clients, which have no sessions, share one
// for each principal and name of a client.
type httpSession struct {
	h     *HTTP
	id    string
	scope string // of modern clients; "": a legacy session
	who   Principal
	c     *connection
	end   func() // ends the engine's session
	rate  *rate.Limiter

	general *stream // what belongs to no request; legacy

	mu      sync.Mutex
	streams map[uint64]*stream // of requests, by number; legacy
	last    uint64             // number of a stream
	busy    int                // requests and streams that are open
	used    time.Time
	ended   bool
}

// newID returns an unguessable name of visible ASCII characters.
func newID() string {
	id := make([]byte, sessionIDBytes)
	_, _ = rand.Read(id) // it never fails
	return base64.RawURLEncoding.EncodeToString(id)
}

// open starts a session. The error is for the client.
func (h *HTTP) open(who Principal, scope string) (*httpSession, *refusal) {
	s := &httpSession{h: h, scope: scope, who: who, general: newStream(0), used: time.Now(), rate: rate.NewLimiter(rate.Limit(h.o.MaxRate), 2*h.o.MaxRate)}
	s.general.keep = true
	if scope == "" {
		s.id = newID()
	}
	h.mu.Lock()
	victim, refused := h.room(who)
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

// start opens the engine's session and tells mcp-go of it.
func (s *httpSession) start() error {
	h := s.h
	opened, err := h.o.Open(s.who)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	opts := Options{
		MCP: h.o.MCP, Engine: opened.Engine, Passed: opened.Passed, Tool: h.o.Tool, Session: opened.Session, ServerInfo: h.o.ServerInfo,
		DrainTimeout: h.o.DrainTimeout, MaxConcurrent: h.o.MaxConcurrent, Log: h.o.Log,
		notifications: notificationsOverHTTP, Via: opened.Via, Parked: h.parked, Owner: s.scope,
	}.withDefaults()
	s.c = newConnection(ctx, opts, s.general)
	s.c.names, s.c.anyID = &h.names, s.scope != ""
	if err := h.o.MCP.RegisterSession(ctx, s.c.peer); err != nil {
		stop()
		opened.Close()
		return fmt.Errorf("start the session: %w", err)
	}
	pumpStop, pumpDone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(pumpDone)
		s.c.peer.pump(pumpStop)
	}()
	opened.Ready(s.c.peer)
	s.end = func() {
		stop()
		h.o.MCP.UnregisterSession(ctx, s.c.peer.SessionID())
		close(pumpStop)
		<-pumpDone
		opened.Close()
	}
	return nil
}

// close ends a session that is in no table any more: what it has in flight is
// cancelled, its streams end.
func (s *httpSession) close(why string) {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	s.ended = true
	streams := slices.Collect(maps.Values(s.streams))
	s.streams = nil
	s.mu.Unlock()
	s.c.refuseNew()
	s.c.giveUpAll("the session ended: " + why)
	s.c.noAnswers("the session ended: " + why)
	for _, st := range append(streams, s.general) {
		st.end()
	}
	s.end()
}

// drain takes no new requests, waits for those in flight, and ends the session.
func (s *httpSession) drain(timeout time.Duration) error {
	s.c.refuseNew()
	s.general.end()
	err := s.c.drain(timeout, nil, nil)
	s.close("the server ends")
	return err
}

// enter says that a request or stream of the session is open; false: it is over.
func (s *httpSession) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.busy++
	return true
}

func (s *httpSession) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	s.used = time.Now()
}

// over says whether the session has ended.
func (s *httpSession) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

func (s *httpSession) lastUsed() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// idle is how long nothing of the session was open or in flight.
func (s *httpSession) idle() time.Duration {
	s.mu.Lock()
	busy, used := s.busy > 0, s.used
	s.mu.Unlock()
	if busy || s.c.inFlight() > 0 || s.scope != "" && s.c.waiting() > 0 {
		return 0
	}
	return time.Since(used)
}

// stream returns a new stream for the response to a request.
func (s *httpSession) stream() *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	return newStream(s.last)
}

// keep makes a stream one that its client may come back to.
func (s *httpSession) keep(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	if s.streams == nil {
		s.streams = map[uint64]*stream{}
	}
	st.mu.Lock()
	st.keep = true
	st.mu.Unlock()
	s.streams[st.number] = st
	s.sweepStreams(time.Now())
}

// kept returns the stream with this number, or nil.
func (s *httpSession) kept(number uint64) *stream {
	if number == 0 {
		return s.general
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams[number]
}

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
	for _, n := range over {
		if len(s.streams) <= maxStreams && total <= maxStreamBytes {
			break
		}
		_, _, size := s.streams[n].rest(now)
		total -= size
		delete(s.streams, n)
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
		case now := <-tick.C:
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
				s.mu.Lock()
				s.sweepStreams(now)
				s.mu.Unlock()
			}
		}
	}
}

// scopeOf names what the requests of a modern client share. Nothing is shared
// between principals.
func scopeOf(who Principal, in *incoming) string {
	name := ""
	if info := jsonrpc.Get(in.slots[slotMeta], "io.modelcontextprotocol/clientInfo"); len(info) > 0 && info[0] == '{' {
		if s, err := jsonrpc.Unquote(jsonrpc.Get(info, "name")); err == nil {
			name = s
		}
	}
	const most = 128
	return who.Key + "\x00" + name[:min(len(name), most)]
}
