package front

import (
	"container/list"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxUnproven is how many connections of one remote address may be open of which
// none has sent a request yet that was let in.
const maxUnproven = 256

// gate bounds the connections of a listener. One that has not sent a request that
// was let in makes room for others: the oldest of its address where there are too
// many of that, the oldest of all where every place is taken. Those that were let in
// count for whom their last request came from, who has a share of the places: its
// idle ones make room for its own beyond that. Where every place is taken by such
// connections, an idle one of whoever has most makes room; where none is idle, new
// ones wait in the system's queue.
type gate struct {
	net.Listener
	most, each, share int
	log               *slog.Logger
	closed            chan struct{}
	once              sync.Once

	mu       sync.Mutex
	open     int
	freed    chan struct{} // closed, and made anew, when a connection ends or is idle
	unproven list.List     // of *gateConn, oldest first
	of       map[string]int
	holders  map[string]*holder
	told     time.Time // the log was, last
}

// newGate returns a gate for most connections, of which each unproven ones may be of
// one address, and half of which are one holder's at most.
func newGate(l net.Listener, most, each int, log *slog.Logger) *gate {
	return &gate{
		Listener: l, most: most, each: each, share: max(1, most/2), log: log,
		closed: make(chan struct{}), freed: make(chan struct{}), of: map[string]int{}, holders: map[string]*holder{},
	}
}

// holder is a principal, or the address of those that prove nothing, with its
// connections.
type holder struct {
	name string // for people
	open int
	idle list.List // of *gateConn, between two requests; the one that is so for longest first
}

// gateConn is one connection. It counts until it is closed.
type gateConn struct {
	net.Conn
	g    *gate
	from string
	once sync.Once
	at   *list.Element // in unproven; nil: it was let in, or is closed
	key  string        // of its holder
	of   *holder       // nil: it was not let in yet, or is closed
	idle *list.Element // in of.idle; nil: it is not
	done bool          // it is closed
}

// Accept implements [net.Listener].
func (g *gate) Accept() (net.Conn, error) {
	conn, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &gateConn{Conn: conn, g: g, from: conn.RemoteAddr().String()}
	if host, _, err := net.SplitHostPort(c.from); err == nil {
		c.from = host
	}
	for {
		victim, wait := g.admit(c)
		switch {
		case victim != nil:
			_ = victim.Close() // its client has proved nothing, and is told nothing
		case wait == nil:
			return c, nil
		default:
			select {
			case <-wait:
			case <-g.closed:
				_ = conn.Close() // it was never served
				return nil, net.ErrClosed
			}
		}
	}
}

// admit takes a connection in, or names the one that has to go first, or what to
// wait for.
func (g *gate) admit(c *gateConn) (victim *gateConn, wait <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of[c.from] >= g.each {
		return g.oldest(c.from), nil
	}
	if g.open >= g.most {
		if victim = g.oldest(""); victim == nil {
			victim = g.spare()
		}
		return victim, g.freed
	}
	g.open++
	g.of[c.from]++
	c.at = g.unproven.PushBack(c)
	return nil, nil
}

// oldest is the oldest connection that is not proven, of one address or of all;
// g.mu is held.
func (g *gate) oldest(from string) *gateConn {
	for e := g.unproven.Front(); e != nil; e = e.Next() {
		if c, ok := e.Value.(*gateConn); ok && (from == "" || c.from == from) {
			return c
		}
	}
	return nil
}

// spare is the connection that is idle for longest of the holder with most
// connections among those that have an idle one; nil: there is none. g.mu is held.
func (g *gate) spare() *gateConn {
	var most *holder
	for _, h := range g.holders {
		if h.idle.Len() > 0 && (most == nil || h.open > most.open) {
			most = h
		}
	}
	if most == nil {
		g.tell("all connections are taken and in use; new ones wait", "connections", g.open)
		return nil
	}
	g.tell("all connections are taken; idle ones of the client with most make room", "connections", g.open, "client", most.name, "of this client", most.open)
	return most.longest()
}

// longest takes the connection that is idle for longest out of the idle ones; nil:
// none is. The gate's lock is held.
func (h *holder) longest() *gateConn {
	e := h.idle.Front()
	if e == nil {
		return nil
	}
	c, _ := h.idle.Remove(e).(*gateConn)
	c.idle = nil
	return c
}

// tell writes to the log, once a minute at most; g.mu is held.
func (g *gate) tell(what string, args ...any) {
	const pause = time.Minute
	if now := time.Now(); g.told.IsZero() || now.Sub(g.told) >= pause {
		g.told = now
		g.log.Warn(what, args...)
	}
}

// prove says that a request of the connection was let in, and whose it is. It reports
// false where that one has all of its share of the connections in use.
func (c *gateConn) prove(key, name string) bool {
	victim, ok := c.held(key, name)
	if victim != nil {
		_ = victim.Close() // nothing is under way on it
	}
	return ok
}

// held counts the connection for its holder, of which another may have to go.
func (c *gateConn) held(key, name string) (victim *gateConn, ok bool) {
	g := c.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.done || c.of != nil && c.key == key {
		return nil, true
	}
	c.counted()
	h := g.holders[key]
	if h == nil {
		h = &holder{name: name}
		g.holders[key] = h
	}
	h.open++
	c.of, c.key = h, key
	if h.open <= g.share {
		return nil, true
	}
	g.tell("a client has all of its share of the connections; its idle ones make room for its new ones", "client", name, "connections", h.open)
	victim = h.longest()
	return victim, victim != nil
}

// rests says whether the connection is between two requests.
func (c *gateConn) rests(idle bool) {
	g := c.g
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case c.of == nil:
	case idle && c.idle == nil:
		c.idle = c.of.idle.PushBack(c)
		if g.open >= g.most {
			g.wake()
		}
	case !idle && c.idle != nil:
		c.of.idle.Remove(c.idle)
		c.idle = nil
	}
}

// wake lets look again who waits for a place; g.mu is held.
func (g *gate) wake() {
	close(g.freed)
	g.freed = make(chan struct{})
}

// counted takes the connection from those that are not proven, or from its holder;
// g.mu is held.
func (c *gateConn) counted() {
	if h := c.of; h != nil {
		if c.idle != nil {
			h.idle.Remove(c.idle)
		}
		if h.open--; h.open == 0 {
			delete(c.g.holders, c.key)
		}
		c.of, c.idle = nil, nil
	}
	if c.at == nil {
		return
	}
	c.g.unproven.Remove(c.at)
	c.at = nil
	if c.g.of[c.from]--; c.g.of[c.from] == 0 {
		delete(c.g.of, c.from)
	}
}

// Close implements [net.Conn].
func (c *gateConn) Close() error {
	c.once.Do(func() {
		g := c.g
		g.mu.Lock()
		defer g.mu.Unlock()
		c.counted()
		c.done = true
		g.open--
		g.wake()
	})
	return c.Conn.Close()
}

// Close implements [net.Listener].
func (g *gate) Close() error {
	g.once.Do(func() { close(g.closed) })
	return g.Listener.Close()
}

type gateKey struct{}

// gated is for the ConnContext of a server.
func gated(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, gateKey{}, bare(conn))
}

// bare is what a connection with TLS runs over, and any other one itself.
func bare(conn net.Conn) net.Conn {
	if secure, ok := conn.(*tls.Conn); ok {
		return secure.NetConn()
	}
	return conn
}

// atRest is for the ConnState of a server.
func atRest(conn net.Conn, state http.ConnState) {
	if c, ok := bare(conn).(*gateConn); ok && (state == http.StateIdle || state == http.StateActive) {
		c.rests(state == http.StateIdle)
	}
}

// letIn says that a request was let in: its connection need not make room for
// others any more as one of which nothing is known. Who proves nothing is known by
// its address. A refusal says that the client has too many connections.
func letIn(r *http.Request, who Principal) *refusal {
	c, ok := r.Context().Value(gateKey{}).(*gateConn)
	if !ok {
		return nil
	}
	key, name := "of "+who.Key, who.Name
	if who.Key == "" {
		key, name = "at "+c.from, c.from
	}
	if c.prove(key, name) {
		return nil
	}
	return &refusal{
		status: http.StatusTooManyRequests, code: codeInvalid, retry: time.Second,
		why: fmt.Sprintf("%d connections are open for %s, and a request runs on each: no client may have more; use fewer connections, or wait until requests have ended", c.g.share, name),
	}
}
