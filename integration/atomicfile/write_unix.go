//go:build !windows

package atomicfile

import (
	"io/fs"

	"github.com/google/renameio/v2"
)

// Write replaces the file at path, with exactly the permissions perm. The
// folder must exist.
func Write(path string, data []byte, perm fs.FileMode) error {
	// renameio.WriteFile would take over the permissions of the old file.
	f, err := renameio.NewPendingFile(path, renameio.WithStaticPermissions(perm))
	if err != nil {
		return err
	}
	defer func() { _ = f.Cleanup() }() // nothing is left of it, or there was no error
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}
