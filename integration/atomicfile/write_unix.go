//go:build !windows

package atomicfile

import (
	"io/fs"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// Write replaces the file at path, with exactly the permissions perm. The
// folder must exist.
func Write(path string, data []byte, perm fs.FileMode) error {
	// renameio.WriteFile would take over the permissions of the old file. Beside the
	// file, and not in $TMPDIR: what a killed process leaves is as private as the file.
	f, err := renameio.NewPendingFile(path, renameio.WithStaticPermissions(perm), renameio.WithTempDir(filepath.Dir(path)))
	if err != nil {
		return err
	}
	defer func() { _ = f.Cleanup() }() // nothing is left of it, or there was no error
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}
