//go:build unix

package regular

import (
	"io/fs"
	"syscall"
)

// nonblock makes opening a pipe return without another end.
const nonblock = syscall.O_NONBLOCK

// Others are the bits of a file's mode that let other users of the machine in.
func Others(info fs.FileInfo) fs.FileMode { return info.Mode().Perm() & 0o077 }

// Owner is the user to whom a file belongs; false: it is not known.
func Owner(info fs.FileInfo) (user uint32, known bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return stat.Uid, true
}
