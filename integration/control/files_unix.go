//go:build unix

package control

import (
	"errors"
	"net"
	"os"
)

// attachedFiles are the two ends of a client's connection as files.
type attachedFiles struct{ in, out *os.File }

// filesOf returns a connection as files and closes it; where it fails the
// connection stays open.
func filesOf(conn net.Conn) (*attachedFiles, error) {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.New("not a Unix socket")
	}
	f, err := u.File()
	if err != nil {
		return nil, err
	}
	return &attachedFiles{f, f}, conn.Close() // the file is a descriptor of its own
}

func (f *attachedFiles) close() { _ = f.in.Close() }
