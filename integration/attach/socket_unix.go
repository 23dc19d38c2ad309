//go:build unix

package attach

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/metamcp/metamcp/integration/safename"
)

// ShortDir is the folder of sockets whose paths would be too long for the
// system.
func ShortDir() string {
	return filepath.Join(os.TempDir(), "metamcp-"+strconv.Itoa(os.Getuid()))
}

// InShortDir reports whether a path is in such a folder; TMPDIR may differ
// between host and reader.
func InShortDir(path string) bool {
	return filepath.Base(filepath.Dir(path)) == "metamcp-"+strconv.Itoa(os.Getuid())
}

// Plausible reports whether a path may be the socket of a host, which may have
// reached the folder by another way than who reads this.
func Plausible(path, name string) bool {
	if !filepath.IsAbs(path) || filepath.Ext(path) != SocketSuffix {
		return false
	}
	return InShortDir(path) || filepath.Base(filepath.Dir(path)) == HostsDir && filepath.Base(path) == safename.SafeName(name)+SocketSuffix
}

// DialSocket connects with a host's socket. It fails, with a [*NotOursError], where
// another user than this one or root listens there, or may have put the socket into the
// folder of short paths; root may speak with everybody's hosts.
func DialSocket(ctx context.Context, path string) (net.Conn, error) {
	if InShortDir(path) {
		switch err := CheckFolder(filepath.Dir(path)); {
		case errors.Is(err, fs.ErrNotExist):
			return nil, err
		case err != nil:
			return nil, &NotOursError{err}
		}
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := checkPeer(conn, PeerUID, os.Geteuid()); err != nil {
		_ = conn.Close() // nothing was said
		return nil, err
	}
	return conn, nil
}

// NobodyListens tells whether a failure of [DialSocket] means that there is no
// host.
func NobodyListens(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}
