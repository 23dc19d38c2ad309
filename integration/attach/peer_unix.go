//go:build unix

package attach

import (
	"errors"
	"fmt"
	"net"
)

// checkPeer refuses a connection on which another user than this one or root listens.
// Root may speak with everybody's hosts. The modes of socket and folder say the same;
// this holds where they were changed.
func checkPeer(c net.Conn, peer func(net.Conn) (uid int, err error), self int) error {
	uid, err := peer(c)
	switch {
	case err != nil:
		return fmt.Errorf("who listens there is not known: %w", err)
	case uid != self && uid != 0 && self != 0:
		return &NotOursError{fmt.Errorf("another user (uid %d) listens there", uid)}
	}
	return nil
}

// onSocket runs do with the descriptor of a connection.
func onSocket(c net.Conn, do func(fd int) error) error {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return errors.New("not a Unix socket")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = do(int(fd)) })
	return errors.Join(err, failed)
}
