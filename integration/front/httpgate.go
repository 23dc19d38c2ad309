package front

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// maxUnproven is how many connections of one remote address may be open of which
// none has sent a request yet that was let in.
const maxUnproven = 256

// gate bounds the connections of a listener. One that has not sent a request that
// was let in makes room for others: the oldest of its address where there are too
// many of that, the oldest of all where every place is taken. Connections that were
// let in once stay; where all places are theirs, new ones wait in the system's
// queue.
type gate struct {
	net.Listener
	most, each int
	closed     chan struct{}
	once       sync.Once

	mu       sync.Mutex
	open     int
	freed    chan struct{} // closed, and made anew, when a connection ends
	unproven list.List     // of *gateConn, oldest first
	of       map[string]int
}

func newGate(l net.Listener, most, each int) *gate {
	return &gate{Listener: l, most: most, each: each, closed: make(chan struct{}), freed: make(chan struct{}), of: map[string]int{}}
}

// gateConn is one connection. It counts until it is closed.
type gateConn struct {
	net.Conn
	g    *gate
	from string
	once sync.Once
	at   *list.Element // in unproven; nil: it was let in, or is closed
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
		return g.oldest(""), g.freed
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

// prove says that a request of the connection was let in.
func (c *gateConn) prove() {
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	c.counted()
}

// counted takes the connection from those that are not proven; g.mu is held.
func (c *gateConn) counted() {
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
		g.open--
		close(g.freed)
		g.freed = make(chan struct{})
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
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	return context.WithValue(ctx, gateKey{}, conn)
}

// letIn says that a request was let in: its connection need not make room for
// others any more.
func letIn(r *http.Request) {
	if c, ok := r.Context().Value(gateKey{}).(*gateConn); ok {
		c.prove()
	}
}
