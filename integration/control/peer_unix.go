//go:build unix

package control

import (
	"net"
	"os"
)

// checkedListener lets in who runs as the same user, or as root. The modes of
// socket and folder say the same; this holds where they were changed.
type checkedListener struct {
	net.Listener
	peer func(net.Conn) (uid int, err error)
	self int
}

func checkPeers(l net.Listener, peer func(net.Conn) (int, error)) net.Listener {
	return &checkedListener{Listener: l, peer: peer, self: os.Geteuid()}
}

// Accept implements net.Listener.
func (l *checkedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if uid, err := l.peer(c); err == nil && (uid == l.self || uid == 0) {
			return c, nil
		}
		_ = c.Close() // a stranger, or one that has gone
	}
}
