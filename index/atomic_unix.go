//go:build !windows

package index

import (
	"io/fs"

	"github.com/google/renameio/v2"
)

// writeFileAtomic writes a file so that a reader, or a crash, sees the old one
// or the new one whole.
func writeFileAtomic(path string, data []byte, perm fs.FileMode) error {
	return renameio.WriteFile(path, data, perm)
}
