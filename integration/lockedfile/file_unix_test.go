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
	for what, err := range map[string]error{
		"a file of the user's": second(lockedfile.ReadTrusted(path, 10)), "read": second(counter(path).Read()), "changed": addOne(t.Context(), path),
	} {
		if err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "a link to nothing") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := os.Lstat(path + "2"); err == nil {
		t.Error("what the link points to was made")
	}
}

// TestLinkStays: a change replaces what the link points to, under the lock of that.
func TestLinkStays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, target := filepath.Join(dir, "link"), filepath.Join(dir, "elsewhere", "count")
	if err := addOne(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	if err := addOne(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("it is a link no more: %v, %v", info.Mode(), err)
	}
	if text, err := counter(target).Read(); err != nil || string(text) != "2" {
		t.Errorf("the file has %q, %v", text, err)
	}
}
