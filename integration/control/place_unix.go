//go:build unix

package control

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/metamcp/metamcp/integration/attach"
	"github.com/metamcp/metamcp/integration/safename"
)

// maxSocketPath is what fits into sun_path of macOS with its NUL; Linux takes
// four bytes more.
const maxSocketPath = 103

// socketFor returns the path of a host's socket: beside its file, or in a
// short folder where that would be too long for the system.
func socketFor(dir, name string) (string, error) {
	path := filepath.Join(dir, safename.SafeName(name)+socketSuffix)
	if len(path) <= maxSocketPath {
		return path, nil
	}
	sum := sha256.Sum256([]byte(dir + "\x00" + name))
	path = filepath.Join(attach.ShortDir(), hex.EncodeToString(sum[:12])+socketSuffix)
	if len(path) > maxSocketPath {
		return "", fmt.Errorf("the paths of a control socket are too long for the system: %d bytes for %s; set TMPDIR to a shorter one", len(path), path)
	}
	return path, nil
}

// openFolder says why others can change what is in a folder, "" where they cannot.
func openFolder(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	const othersWrite = 0o022
	if mode := info.Mode(); mode.Perm()&othersWrite != 0 && mode&fs.ModeSticky == 0 {
		return fmt.Sprintf("other users of this machine can change what is in %s (mode %o); use: chmod 700 %s", path, mode.Perm(), path)
	}
	return ""
}

// listen makes the socket, which must not exist yet.
func listen(ctx context.Context, path string) (net.Listener, error) {
	if attach.InShortDir(path) {
		if err := privateDir(filepath.Dir(path)); err != nil {
			return nil, err
		}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if u, ok := l.(*net.UnixListener); ok {
		// It is removed under the lock of the folder, by who owns the name.
		u.SetUnlinkOnClose(false)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(path))
	}
	return checkPeers(l, attach.PeerUID), nil
}

// removeDeadSocket reports whether the path is free, after it removed a socket
// on which nobody listens. Whatever else is there stays.
func removeDeadSocket(ctx context.Context, path string) bool {
	if taken(path) && dead(ctx, path) {
		removeSocket(path)
	}
	return !taken(path)
}

// removeSocket removes a socket, and nothing else.
func removeSocket(path string) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
		_ = os.Remove(path) // where it stays it is found dead again
	}
}
