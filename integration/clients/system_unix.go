//go:build unix

package clients

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// severalNames reports whether a file has hard links, which a rename would
// cut.
func severalNames(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink > 1
}

// keepOwner gives a new file the owner and group of an old one, and reports
// whether that could be done.
func keepOwner(f *os.File, old fs.FileInfo) bool {
	st, ok := old.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	info, err := f.Stat()
	if err != nil {
		return false
	}
	if own, ok := info.Sys().(*syscall.Stat_t); ok && own.Uid == st.Uid && own.Gid == st.Gid {
		return true
	}
	return f.Chown(int(st.Uid), int(st.Gid)) == nil
}

func busy(err error) bool { return errors.Is(err, syscall.EBUSY) }
