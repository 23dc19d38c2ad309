//go:build !windows

package privatedir

import "io/fs"

// othersWrite says whether others can put another file in the place of one. Where
// the folder is like /tmp they cannot, and it is not ours to close.
func othersWrite(info fs.FileInfo) bool {
	return info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0
}
