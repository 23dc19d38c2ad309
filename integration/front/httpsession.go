package front

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
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
	live    map[*stream]struct{} // all beside general that hold something, or may
	ended   bool

	holds atomic.Int64 // bytes in streams
	bill  *bill
}

// newID returns an unguessable name of visible ASCII characters.
func newID() string {
	id := make([]byte, sessionIDBytes)
	_, _ = rand.Read(id) // it never fails
	return base64.RawURLEncoding.EncodeToString(id)
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
		Hurry: h.o.Hurry, MaxConcurrent: h.o.MaxConcurrent, Log: h.o.Log,
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
	s.streams, s.live = nil, nil
	s.mu.Unlock()
	s.c.refuseNew()
	s.c.giveUpAll("the session ended: " + why)
	s.c.noAnswers("the session ended: " + why)
	for _, st := range append(streams, s.general) {
		st.end()
		if !st.read() {
			st.discard() // else its reader does, once it has written the rest
		}
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
	st := newStream(s.last)
	st.ended = s.sweepNow
	s.track(st)
	return st
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

// scopeOf names what the requests of a modern client share. Nothing is shared
// between principals.
func scopeOf(who Principal, in *incoming) string {
	name := text(in.slots[slotClientName])
	const most = 128
	return who.Key + "\x00" + name[:min(len(name), most)]
}

// introduce takes down what a modern client says of itself with each request: those
// that need not pass mcp-go leave no trace there.
func (s *httpSession) introduce(in *incoming) {
	if name := text(in.slots[slotClientName]); name != "" {
		s.c.peer.SetClientInfo(mcp.Implementation{Name: name, Version: text(jsonrpc.Get(in.slots[slotClientInfo], "version"))})
	}
}

// text is what a JSON string stands for; "" for anything else.
func text(raw []byte) string {
	s, err := jsonrpc.Unquote(raw)
	if err != nil {
		return ""
	}
	return s
}
