//go:build unix

package attach

import (
	"fmt"
	"os"
	"syscall"
)

// CheckFolder says why a folder of hosts, or of their sockets, is not used: whoever can
// put something there can take a host's place, so it has to be a folder of this user,
// and no link to one, that nobody else can enter. Where there is none the error is
// [io/fs.ErrNotExist].
func CheckFolder(path string) error { return checkFolder(path, os.Geteuid(), false) }

// CheckShown is CheckFolder for who only looks at the hosts that are announced there:
// root may look at everybody's.
func CheckShown(path string) error { return checkFolder(path, os.Geteuid(), true) }

func checkFolder(path string, self int, look bool) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	switch st, ok := info.Sys().(*syscall.Stat_t); {
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder; remove it", path)
	case !ok || int(st.Uid) != self && (!look || self != 0):
		return fmt.Errorf("%s belongs to another user; remove it, or use another --state-dir", path)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s is open to others (mode %o); use: chmod 700 %s", path, info.Mode().Perm(), path)
	}
	return nil
}
