package attach

import (
	"fmt"
	"os"
)

// CheckFolder says why a folder of hosts is not used. It has the access rights of the
// user's profile, which are private by default. Where there is none the error is
// [io/fs.ErrNotExist].
func CheckFolder(path string) error {
	info, err := os.Lstat(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a folder; remove it", path)
	}
	return err
}

// CheckShown is CheckFolder.
func CheckShown(path string) error { return CheckFolder(path) }
