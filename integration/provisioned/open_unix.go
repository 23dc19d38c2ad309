//go:build !windows

package provisioned

import "io/fs"

// openToOthers says why a file cannot be believed that everybody may write to.
func openToOthers(info fs.FileInfo) string {
	const othersWrite = 0o002
	if info.Mode().Perm()&othersWrite != 0 {
		return "everybody on this machine may write to it; run chmod 600 on it"
	}
	return ""
}
