package diskspace

import "golang.org/x/sys/windows"

// Free returns how many bytes this user may still write at path, which must exist;
// it is never negative.
func Free(path string) (int64, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return 0, err
	}
	return bytesIn(free, 1), nil
}
