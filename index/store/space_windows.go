package store

import (
	"io/fs"
	"math"

	"golang.org/x/sys/windows"
)

// freeSpace returns how many bytes this user may still write at path.
func freeSpace(path string) (int64, error) {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(p, &free, nil, nil); err != nil {
		return 0, err
	}
	return int64(min(free, math.MaxInt64)), nil
}

// realSize returns what a file takes on disk, in bytes; the system tells no
// more than its length.
func realSize(info fs.FileInfo) int64 { return info.Size() }
