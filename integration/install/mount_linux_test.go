package install

import (
	"testing"

	"golang.org/x/sys/unix"
)

// mountSmall makes a folder a disk of 1 MB until the test ends.
func mountSmall(t *testing.T, dir string) error {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		return err
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return nil
}
