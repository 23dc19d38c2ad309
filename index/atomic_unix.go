//go:build !windows

package index

import (
	"io/fs"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// writeFileAtomic writes a file so that a reader, or a crash, sees the old one
// or the new one whole. What a killed process leaves is in the same folder.
func writeFileAtomic(path string, data []byte, perm fs.FileMode) error {
	return renameio.WriteFile(path, data, perm, renameio.WithTempDir(filepath.Dir(path)))
}
