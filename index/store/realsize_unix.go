//go:build unix

package store

import (
	"io/fs"
	"syscall"
)

// realSize returns what a file takes on disk, in bytes. Badger's files are
// sparse while they are open.
func realSize(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}
