package control

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerUID asks the system which user is at the other end.
func peerUID(c net.Conn) (uid int, err error) {
	err = onSocket(c, func(fd int) error {
		cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			uid = int(cred.Uid)
		}
		return err
	})
	return uid, err
}
