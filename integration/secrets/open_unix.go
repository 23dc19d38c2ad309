//go:build !windows

package secrets

import (
	"fmt"
	"io/fs"
)

// readableByOthers says why a file is not private, or "".
func readableByOthers(info fs.FileInfo) string {
	const others = 0o077
	if mode := info.Mode().Perm(); mode&others != 0 {
		return fmt.Sprintf("others on this machine may read it or write to it (mode %o); whoever could has the secrets, so change them; then chmod 600 it", mode)
	}
	return ""
}
