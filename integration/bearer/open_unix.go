//go:build !windows

package bearer

import (
	"fmt"
	"io/fs"
)

// readableByOthers says why a file is not private, or "".
func readableByOthers(info fs.FileInfo) string {
	const others = 0o077
	if mode := info.Mode().Perm(); mode&others != 0 {
		return fmt.Sprintf("others on this machine may read it or write to it (mode %o); it may have been changed by them; look at metamcp token list after chmod 600", mode)
	}
	return ""
}
