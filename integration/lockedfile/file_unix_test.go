//go:build unix

package lockedfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/metamcp/metamcp/integration/lockedfile"
)

// TestPipeInPlace: nobody is at the other end, and nobody waits for one.
func TestPipeInPlace(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{"", ".lock"} {
		path := filepath.Join(t.TempDir(), "count")
		if err := syscall.Mkfifo(path+suffix, 0o600); err != nil {
			t.Fatal(err)
		}
		inPlace(t, path, suffix)
	}
}

// TestOpenToOthers: a private file that others may read is not used; one of the
// user's may be read by them, but not written by everybody.
func TestOpenToOthers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "count")
	if err := addOne(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	for mode, trusted := range map[os.FileMode]bool{0o640: true, 0o604: true, 0o620: true, 0o602: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if err := addOne(t.Context(), path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "count again") {
			t.Errorf("mode %o: %v", mode, err)
		}
		if _, err := lockedfile.ReadTrusted(path, 10); (err == nil) != trusted || err != nil && !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %o, a file of the user's: %v", mode, err)
		}
	}
}

// TestLinkToNothing: it is not taken for a file that is not there yet.
func TestLinkToNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path+"2", path); err != nil {
		t.Fatal(err)
	}
	if _, err := lockedfile.ReadTrusted(path, 10); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "a link to nothing") {
		t.Errorf("%v", err)
	}
}
