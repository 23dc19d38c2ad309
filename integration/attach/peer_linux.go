package attach

import (
	"net"
	"syscall"
)

// PeerUID asks the system which user is at the other end of a Unix socket.
func PeerUID(c net.Conn) (uid int, err error) {
	err = onSocket(c, func(fd int) error {
		cred, err := syscall.GetsockoptUcred(fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		if err == nil {
			uid = int(cred.Uid)
		}
		return err
	})
	return uid, err
}
