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
