//go:build unix

package diskspace

import "golang.org/x/sys/unix"

// Free returns how many bytes this user may still write at path, which must exist;
// it is never negative.
func Free(path string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, err
	}
	// Some systems count below zero what is kept for root. The types differ between systems.
	return bytesIn(uint64(max(st.Bavail, 0)), uint64(st.Bsize)), nil //nolint:unconvert // see above
}
