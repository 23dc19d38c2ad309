package front

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"golang.org/x/time/rate"

	"github.com/metamcp/metamcp/messages"
)

// Endpoint is the path of the one endpoint of [HTTP].
const Endpoint = "/mcp"

// The defaults of [HTTPOptions].
const (
	DefaultMaxBody         = 16 << 20
	DefaultMaxSessions     = 2000
	DefaultMaxSessionsEach = 1000
	DefaultMaxRate         = 500
	DefaultMaxEach         = 256
	DefaultIdleTimeout     = 30 * time.Minute
	DefaultKeepAlive       = 15 * time.Second
)

// Principal is whom a request comes from, as far as that is known.
type Principal struct {
	// Key tells principals apart; those of two clients that prove nothing are
	// equal. Sessions, and what is kept in them, are of one principal.
	Key string
	// Name is for people; "" where nothing was proved.
	Name string
	// NoProvision says that the principal must not have servers installed.
	NoProvision bool
	// Still says whether the principal would be let in now. Once it does not, its
	// sessions end within [HTTPOptions.KeepAlive]. Nil: nothing changes that.
	Still func() bool
}

// Opened is a session of the engine.
type Opened struct {
	Session uint64
	Engine  Engine
	Passed  Passed // nil: no request goes to a server but calls
	// Via is that of [Options].
	Via func(client messages.ClientPort, request uint64) messages.ClientPort
	// Ready is called with the client's peer before its first request.
	Ready func(*Peer)
	// Close ends the session, and cancels what it has in flight.
	Close func()
}

// HTTPOptions are what [NewHTTP] needs.
type HTTPOptions struct {
	// MCP answers everything but the calls of Tool, for all clients. Required.
	MCP *server.MCPServer
	// Open opens a session of the engine. Required.
	Open func(Principal) (Opened, error)
	// Pages serves paths that begin with PagesPrefix, for browsers, and judges by
	// itself who may see what is there; nil: there is nothing.
	Pages       http.Handler
	PagesPrefix string
	// Authorize says whom a request comes from; nil: nobody proves anything. The
	// error's text is for the client. It is asked again for streams that stay
	// open.
	Authorize func(*http.Request) (Principal, error)
	// Hosts are the names, beside addresses and localhost, that clients may call
	// this server by, and Origins the origins, beside its own, whose pages may
	// talk to it, such as https://example.com.
	Hosts, Origins []string
	// LoopbackOnly refuses addresses as names that are none of this machine
	// alone.
	LoopbackOnly bool
	// CheckParams, where not nil, judges the headers of a modern tools/call that
	// its Mcp-Name header names rightly. lookup returns a header, and whether
	// there is one. An error is answered as a mismatch of headers. It may wait, on the
	// goroutine of the request, until ctx ends, which does with the request.
	CheckParams func(ctx context.Context, tool string, params []byte, lookup func(name string) (string, bool)) error

	Tool         string // as in [Options]
	ServerInfo   []byte
	DrainTimeout time.Duration
	// DrainLeft, where not nil, is asked instead when the server begins to close.
	// What is not above 0 leaves no time.
	DrainLeft func() time.Duration
	Hurry     <-chan struct{} // as in [Options]
	// MaxConcurrent is how many requests of one session mcp-go works on at once.
	MaxConcurrent int
	// MaxBody is the size of a request's body at most, in bytes; 0: 16 MiB.
	MaxBody int64
	// MaxSessions and MaxSessionsEach bound the sessions in all and of one
	// principal; 0: 2000 and 1000.
	MaxSessions, MaxSessionsEach int
	// MaxRate is how many requests a second one client may send, in the mean;
	// twice as many at once. 0: 500.
	MaxRate int
	// MaxEach is how many requests of one client may be open at once; 0: 256.
	MaxEach int
	// IdleTimeout is how long a session lives of which nothing is open; 0: 30 min.
	IdleTimeout time.Duration
	// KeepAlive is after what silence a stream gets a comment, and a request that
	// still runs becomes a stream; 0: 15 s.
	KeepAlive time.Duration
	// Patience is how long a client may take to send a body or to read what was
	// written; 0: 30 s.
	Patience time.Duration
	// Log takes what the operator should know; nil: nothing is logged.
	Log *slog.Logger

	pieceTime            time.Duration // 0: that of the constant
	maxHeld, maxHeldEach int64         // 0: those of the constants
	maxOpen, maxOpenEach int64         // 0: those of the constants
}

func (o HTTPOptions) withDefaults() HTTPOptions {
	o.MaxBody = orElse(o.MaxBody, DefaultMaxBody)
	o.MaxSessions = orElse(o.MaxSessions, DefaultMaxSessions)
	o.MaxSessionsEach = orElse(o.MaxSessionsEach, DefaultMaxSessionsEach)
	o.MaxRate = orElse(o.MaxRate, DefaultMaxRate)
	o.MaxEach = orElse(o.MaxEach, DefaultMaxEach)
	o.IdleTimeout = orElse(o.IdleTimeout, DefaultIdleTimeout)
	o.KeepAlive = orElse(o.KeepAlive, DefaultKeepAlive)
	o.Patience = orElse(o.Patience, 30*time.Second)
	o.DrainTimeout = orElse(o.DrainTimeout, DefaultDrainTimeout)
	o.pieceTime = orElse(o.pieceTime, pieceTime)
	o.maxOpen, o.maxOpenEach = orElse(o.maxOpen, max(maxOpen, 4*o.MaxBody)), orElse(o.maxOpenEach, max(maxOpenEach, 2*o.MaxBody))
	o.maxHeld, o.maxHeldEach = orElse(o.maxHeld, maxHeld), orElse(o.maxHeldEach, maxHeldEach)
	if o.Authorize == nil {
		o.Authorize = func(*http.Request) (Principal, error) { return Principal{}, nil }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func orElse[T ~int | ~int64](given, otherwise T) T {
	if given <= 0 {
		return otherwise
	}
	return given
}

// HTTP is the front over Streamable HTTP, for clients of both generations. It
// is an [http.Handler]; see docs/HTTP.md.
type HTTP struct {
	o       HTTPOptions
	origin  map[string]bool
	hosts   map[string]bool
	names   names
	parked  *Parked       // of modern clients
	bodies  *bodies       // that are being read
	held    atomic.Int64  // bytes in all streams of all sessions
	pressed chan struct{} // one token: they are too many
	// leaving says that clients should open their next connection elsewhere.
	leaving atomic.Bool
	stop    chan struct{} // ends the sweeper
	swept   chan struct{}

	mu       sync.Mutex
	sessions map[string]*httpSession // legacy ones by id
	scopes   map[string]*httpSession // of modern clients
	opening  map[string]int          // sessions on their way, by the principal's key
	openers  map[string]*rate.Limiter
	closing  bool

	closeOnce sync.Once
	closeErr  error
}

// NewHTTP returns a front that serves until [HTTP.Close].
func NewHTTP(o HTTPOptions) *HTTP {
	h := &HTTP{
		o: o.withDefaults(), origin: map[string]bool{}, hosts: map[string]bool{},
		parked: NewParked(), pressed: make(chan struct{}, 1),
		bodies: newBodies(), stop: make(chan struct{}), swept: make(chan struct{}),
		sessions: map[string]*httpSession{}, scopes: map[string]*httpSession{}, opening: map[string]int{}, openers: map[string]*rate.Limiter{},
	}
	for _, name := range h.o.Hosts {
		h.hosts[strings.ToLower(name)] = true
	}
	for _, origin := range h.o.Origins {
		h.origin[asSent(origin)] = true
	}
	go func() {
		defer close(h.swept)
		h.sweep(h.stop)
	}()
	return h
}

// Close takes no new requests and ends all streams that would not end by
// themselves. What is in flight has the drain timeout to be answered; then it is
// answered with an error. The error says what was cut off.
func (h *HTTP) Close(ctx context.Context) error {
	h.closeOnce.Do(func() { h.closeErr = h.close(ctx) })
	return h.closeErr
}

func (h *HTTP) close(ctx context.Context) error {
	h.mu.Lock()
	h.closing = true
	var all []*httpSession
	for s := range h.each {
		all = append(all, s)
	}
	h.mu.Unlock()
	close(h.stop)
	<-h.swept
	timeout := h.o.DrainTimeout
	if h.o.DrainLeft != nil {
		timeout = h.o.DrainLeft()
	}
	if deadline, ok := ctx.Deadline(); ok {
		timeout = max(min(timeout, time.Until(deadline)), time.Millisecond)
	}
	cut := make(chan error, len(all))
	for _, s := range all {
		go func() { cut <- s.drain(timeout) }()
	}
	var err error
	for range all {
		err = errors.Join(err, <-cut)
	}
	h.mu.Lock()
	clear(h.sessions)
	clear(h.scopes)
	h.mu.Unlock()
	return err
}

// Sessions is how many clients there are.
func (h *HTTP) Sessions() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.sessions) + len(h.scopes)
}

// refusal is an answer to a request that is not taken.
type refusal struct {
	status int
	code   int    // of the JSON-RPC error
	why    string // for the client
	retry  time.Duration
	allow  string // methods
	// challenge says how to prove who one is.
	challenge string
	data      []byte // of the error, one JSON value
}

var refuseEnding = &refusal{
	status: http.StatusServiceUnavailable, code: codeShuttingDown, retry: 5 * time.Second,
	why: "metamcp is shutting down and takes no more requests; nothing was sent",
}

var refuseUnknown = &refusal{
	status: http.StatusNotFound, code: codeInvalid,
	why: "there is no such session, or it was ended, as by the removal of its token; begin a new one with initialize, or repeat the request where the protocol has no sessions",
}

// unproven refuses who did not prove who it is.
func unproven(r *http.Request, why string) *refusal {
	f := &refusal{status: http.StatusUnauthorized, code: codeInvalid, why: why, challenge: `Bearer realm="metamcp"`}
	if r.Header.Get("Authorization") != "" {
		f.challenge += `, error="invalid_token"`
	}
	return f
}

// refuseHTTP writes a refusal; id is that of the request, or nil.
func refuseHTTP(w http.ResponseWriter, id []byte, f *refusal) {
	if f.retry > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(max(1, int((f.retry+time.Second-1)/time.Second))))
	}
	if f.allow != "" {
		w.Header().Set("Allow", f.allow)
	}
	if f.challenge != "" {
		w.Header().Set("WWW-Authenticate", f.challenge)
	}
	body := AppendError(nil, id, f.code, f.why)
	if f.data != nil {
		body = append(append(append(body[:len(body)-2], `,"data":`...), f.data...), "}}"...)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.status)
	_, _ = w.Write(append(body, '\n')) //nolint:gosec,nolintlint // G705, which it finds now and then: it is JSON, and said to be that; who is gone needs no answer
}

// turnAway refuses somebody of whom nothing is known, who keeps no connection.
func turnAway(w http.ResponseWriter, f *refusal) {
	w.Header().Set("Connection", "close")
	refuseHTTP(w, nil, f)
}

// ServeHTTP implements [http.Handler].
func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.o.Pages != nil && strings.HasPrefix(r.URL.Path, h.o.PagesPrefix) {
		h.o.Pages.ServeHTTP(w, r)
		return
	}
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if h.leaving.Load() {
		header.Set("Connection", "close")
	}
	if f := h.foreign(w, r); f != nil {
		turnAway(w, f)
		return
	}
	if r.URL.Path != Endpoint {
		turnAway(w, &refusal{status: http.StatusNotFound, code: codeInvalid, why: "there is nothing here; the endpoint is " + Endpoint})
		return
	}
	if r.Method == http.MethodOptions {
		header.Set("Connection", "close") // a browser that asks first proves nothing
		header.Set("Allow", allMethods)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	who, err := h.o.Authorize(r)
	if err != nil {
		turnAway(w, unproven(r, err.Error()))
		return
	}
	if f := letIn(r, who); f != nil {
		turnAway(w, f)
		return
	}
	modern := r.Header.Get(mcp.HeaderProtocolVersion) >= modernVersion
	switch {
	case r.Method == http.MethodPost:
		h.post(w, r, who)
	case r.Method != http.MethodGet && r.Method != http.MethodDelete:
		refuseHTTP(w, nil, &refusal{status: http.StatusMethodNotAllowed, code: codeInvalid, allow: allMethods, why: "the endpoint knows POST, GET and DELETE"})
	case modern:
		refuseHTTP(w, nil, &refusal{
			status: http.StatusMethodNotAllowed, code: codeInvalid, allow: http.MethodPost,
			why: "since revision " + modernVersion + " there are no sessions, and what a server has to say comes on subscriptions/listen",
		})
	case r.Method == http.MethodGet:
		h.get(w, r, who)
	default:
		h.remove(w, r, who)
	}
}

const allMethods = "POST, GET, DELETE, OPTIONS"

// remove ends a session.
func (h *HTTP) remove(w http.ResponseWriter, r *http.Request, who Principal) {
	s, f := h.session(r, who)
	if f != nil {
		refuseHTTP(w, nil, f)
		return
	}
	h.mu.Lock()
	h.forget(s)
	h.mu.Unlock()
	s.close("its client ended it")
	w.WriteHeader(http.StatusNoContent)
}

// session returns the legacy session that a request belongs to.
func (h *HTTP) session(r *http.Request, who Principal) (*httpSession, *refusal) {
	if f := legacyVersion(r); f != nil {
		return nil, f
	}
	id := r.Header.Get(mcp.HeaderSessionID)
	if id == "" {
		return nil, &refusal{
			status: http.StatusBadRequest, code: codeInvalid,
			why: "the header " + mcp.HeaderSessionID + " is missing; a client of a revision before " + modernVersion + " begins with initialize, and sends the id that it is answered",
		}
	}
	h.mu.Lock()
	s := h.sessions[id]
	h.mu.Unlock()
	// The session of somebody else is none: who guesses learns nothing.
	if s == nil || s.who.Key != who.Key {
		return nil, refuseUnknown
	}
	return s, nil
}

// legacyVersion judges the header that names the revision, where there is one.
func legacyVersion(r *http.Request) *refusal {
	version := r.Header.Get(mcp.HeaderProtocolVersion)
	if version == "" || mcp.IsValidProtocolVersion(version) {
		return nil
	}
	return &refusal{
		status: http.StatusBadRequest, code: codeInvalid,
		why: fmt.Sprintf("the revision %.40q in %s is not known; %s are", version, mcp.HeaderProtocolVersion, strings.Join(mcp.ValidProtocolVersions, ", ")),
	}
}
