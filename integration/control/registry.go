package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/metamcp/metamcp/integration/atomicfile"
	"github.com/metamcp/metamcp/integration/attach"
	"github.com/metamcp/metamcp/integration/lockedfile"
	"github.com/metamcp/metamcp/integration/safename"
)

const (
	infoSuffix   = attach.InfoSuffix
	socketSuffix = attach.SocketSuffix
	maxName      = 64
	// maxSameName is how many hosts may ask for one name.
	maxSameName = 1000
	// lockPatience is how long others may hold the folder; they do for
	// milliseconds.
	lockPatience = 5 * time.Second
	// probePatience is how long a host's socket may take to accept.
	probePatience = 2 * time.Second
)

// HostInfo is what a running host says of itself on disk.
type HostInfo = attach.HostInfo

// same reports whether both are of one run of one host.
func same(i, other *HostInfo) bool {
	return i.Name == other.Name && i.PID == other.PID && i.Started.Equal(other.Started)
}

// registry is the folder in which hosts announce themselves. All changes are
// made under its lock, so that nobody removes what another has just made.
type registry struct{ dir string }

func newRegistry(stateDir string) registry {
	return registry{dir: filepath.Join(stateDir, attach.HostsDir)}
}

func (r registry) infoPath(name string) string {
	return filepath.Join(r.dir, safename.SafeName(name)+infoSuffix)
}

// lock holds the folder until release is called.
func (r registry) lock(ctx context.Context) (release func(), err error) {
	unlock, err := lockedfile.Lock(ctx, filepath.Join(r.dir, ".lock"), lockPatience)
	if err != nil {
		return nil, err
	}
	return func() { _ = unlock() }, nil // the system does it anyhow with the process
}

// checkName refuses names that would not read well in a table or a message.
func checkName(name string) error {
	if name == "" || len(name) > maxName || name != strings.TrimSpace(name) || strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return fmt.Errorf("the host's name %q: use 1 to %d printable characters", name, maxName)
	}
	return nil
}

// prepare makes the folder.
func (r registry) prepare() error {
	if err := os.MkdirAll(filepath.Dir(r.dir), 0o700); err != nil {
		return err
	}
	return privateDir(r.dir)
}

// privateDir makes a folder, or makes sure that an existing one is ours alone.
func privateDir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return attach.CheckFolder(path)
}

// claim listens under the first free name of want, want-2, want-3 and so on,
// and announces it.
func (r registry) claim(ctx context.Context, want string, info HostInfo) (net.Listener, HostInfo, error) {
	if err := r.prepare(); err != nil {
		return nil, info, err
	}
	release, err := r.lock(ctx)
	if err != nil {
		return nil, info, err
	}
	defer release()
	for n := 1; n <= maxSameName; n++ {
		info.Name = want
		if n > 1 {
			info.Name = fmt.Sprintf("%s-%d", want, n)
		}
		info.Socket, err = socketFor(r.dir, info.Name)
		if err != nil {
			return nil, info, err
		}
		r.sweep(ctx, info.Name)
		if taken(r.infoPath(info.Name)) || !removeDeadSocket(ctx, info.Socket) {
			continue
		}
		l, err := listen(ctx, info.Socket)
		if err != nil {
			return nil, info, err
		}
		if err := r.announce(&info); err != nil {
			err = errors.Join(err, l.Close())
			removeSocket(info.Socket)
			return nil, info, err
		}
		return l, info, nil
	}
	return nil, info, fmt.Errorf("the names %s to %s-%d are all taken in %s", want, want, maxSameName, r.dir)
}

// taken reports whether anything at all is there.
func taken(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func (r registry) announce(info *HostInfo) error {
	text, err := announcement(info)
	if err != nil {
		return err
	}
	path := r.infoPath(info.Name)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// announceAnew replaces what a host announced, unless another has the name by now.
// Who reads it meanwhile has the one or the other.
func (r registry) announceAnew(ctx context.Context, info *HostInfo) error {
	text, err := announcement(info)
	if err != nil {
		return err
	}
	release, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	now, err := r.read(safename.SafeName(info.Name) + infoSuffix)
	switch {
	case err != nil:
		return fmt.Errorf("what announces the host is gone: %w", err)
	case !same(now, info):
		return fmt.Errorf("another host, of the process %d, has the name %s by now", now.PID, info.Name)
	}
	return atomicfile.Write(r.infoPath(info.Name), text, 0o600)
}

func announcement(info *HostInfo) ([]byte, error) {
	text, err := json.MarshalIndent(info, "", "  ")
	return append(text, '\n'), err
}

// read is [attach.Read] for a file of the folder.
func (r registry) read(file string) (*HostInfo, error) { return attach.Read(r.dir, file) }

// sweep removes what a dead host left under a name. The caller holds the lock.
func (r registry) sweep(ctx context.Context, name string) {
	h, err := r.read(safename.SafeName(name) + infoSuffix)
	if err != nil || !dead(ctx, h.Socket) {
		return
	}
	removeSocket(h.Socket)
	_ = os.Remove(r.infoPath(name)) // what cannot be removed is found dead again
}

// withdraw removes what a host announced, unless another has the name by now.
func (r registry) withdraw(ctx context.Context, info *HostInfo) error {
	release, err := r.lock(ctx)
	if err != nil {
		return fmt.Errorf("%w; what stays of this host is removed by whoever lists hosts next", err)
	}
	defer release()
	now, err := r.read(safename.SafeName(info.Name) + infoSuffix)
	if err != nil || !same(now, info) {
		return nil // nothing of ours is there any more
	}
	removeSocket(info.Socket)
	return os.Remove(r.infoPath(info.Name))
}

// dead reports whether certainly nobody listens. A host that does not answer
// is not dead.
func dead(ctx context.Context, socket string) bool {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	c, err := attach.DialSocket(ctx, socket)
	if err == nil {
		_ = c.Close()
		return false
	}
	return attach.NobodyListens(err)
}
