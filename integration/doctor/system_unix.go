//go:build unix

package doctor

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// isPath reports whether a command is a path and not looked up in PATH.
func isPath(command string) bool { return strings.Contains(command, "/") }

// names are the file names under which a command is looked up.
func names(command, _ string) []string { return []string{command} }

func sameVariable(a, b string) bool { return a == b }

// mayExecute asks the system, since modes alone do not tell.
func mayExecute(file string, info fs.FileInfo) bool {
	return info.Mode()&0o111 != 0 && unix.Access(file, unix.X_OK) == nil
}

// ownGroup lets a program be ended together with all that it started.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// foreign reports whether a file belongs to another user.
func foreign(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) != os.Geteuid()
}

// locked reports whether another process holds the lock of a file. The own
// look is a shared lock of some microseconds.
func locked(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	// A process that is just being started has the descriptor too, for a moment.
	return false, errors.Join(err, unix.Flock(int(f.Fd()), unix.LOCK_UN))
}

// nobodyListens reports whether an error says so of a socket for certain.
func nobodyListens(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}
