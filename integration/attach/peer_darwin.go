package attach

import (
	"net"

	"golang.org/x/sys/unix"
)

// PeerUID asks the system which user is at the other end of a Unix socket.
func PeerUID(c net.Conn) (uid int, err error) {
	err = onSocket(c, func(fd int) error {
		cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
		if err == nil {
			uid = int(cred.Uid)
		}
		return err
	})
	return uid, err
}
