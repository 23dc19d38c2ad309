//go:build unix

package control

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// sendSocket writes text with the descriptor of a socket beside it. The
// descriptor stays the sender's as well.
func sendSocket(conn net.Conn, text []byte, l net.Listener) error {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return errors.New("not a Unix socket")
	}
	tcp, ok := l.(syscall.Conn)
	if !ok {
		return fmt.Errorf("a %T has no descriptor", l)
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	// Not by way of a file: who asks that for its descriptor makes it blocking,
	// for the socket's other owners as well.
	var failed error
	err = raw.Control(func(fd uintptr) {
		_, _, failed = u.WriteMsgUnix(text, syscall.UnixRights(int(fd)), nil)
	})
	return errors.Join(err, failed)
}

// receiveSocket reads the beginning of an answer, and the socket beside it; nil:
// there is none.
func receiveSocket(conn net.Conn) (text []byte, l net.Listener, err error) {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, nil, errors.New("not a Unix socket")
	}
	text = make([]byte, 4096)
	beside := make([]byte, syscall.CmsgSpace(4)) // one descriptor
	n, extra, _, _, err := u.ReadMsgUnix(text, beside)
	if err != nil {
		return nil, nil, err
	}
	text = text[:n]
	parts, err := syscall.ParseSocketControlMessage(beside[:extra])
	if err != nil || len(parts) == 0 {
		return text, nil, err
	}
	fds, err := syscall.ParseUnixRights(&parts[0])
	if err != nil || len(fds) == 0 {
		return text, nil, err
	}
	f := os.NewFile(uintptr(fds[0]), "socket of the host before")
	defer func() { _ = f.Close() }() // the listener has a descriptor of its own
	l, err = net.FileListener(f)
	return text, l, err
}
