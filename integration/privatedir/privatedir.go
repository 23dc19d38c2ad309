// Package privatedir makes the folders of files that nobody else may read or
// replace, and closes those that are open.
package privatedir

import (
	"fmt"
	"os"
)

// Make makes a folder that its owner alone can enter, with what is missing above it.
// One that is there and that others can write to is closed (0700), since whoever can
// write there can put another file in the place of ours; the error says why that
// cannot be. One that others can only enter, or in which nobody
// can replace the files of others (/tmp), stays as it is.
func Make(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !othersWrite(info) {
		return nil
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a folder needs x
		return fmt.Errorf("others on this machine can write to %s (mode %o), and so could replace what is kept there, and it cannot be closed: %w; take another folder, or chmod 700 it as its owner", dir, info.Mode().Perm(), err)
	}
	return nil
}
