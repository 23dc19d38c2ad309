package control

import (
	"net"
	"sync"
)

// boundedListener bounds the connections that are served at a time; more wait
// in the system's queue. One that became a session of a client does not count
// any more: it lasts as long as its client, and has a bound of its own.
type boundedListener struct {
	net.Listener
	places chan struct{}
	ended  chan struct{}
	once   sync.Once
}

func newBoundedListener(l net.Listener, most int) *boundedListener {
	return &boundedListener{Listener: l, places: make(chan struct{}, most), ended: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.ended:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &boundedConn{Conn: c, release: func() { <-l.places }}, nil
}

// Close implements net.Listener.
func (l *boundedListener) Close() error {
	l.once.Do(func() { close(l.ended) })
	return l.Listener.Close()
}

// boundedConn gives its place back once.
type boundedConn struct {
	net.Conn
	once    sync.Once
	release func()
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.release)
	return err
}

// detach gives the place back and returns the connection that is left.
func (c *boundedConn) detach() net.Conn {
	c.once.Do(c.release)
	return c.Conn
}
