//go:build unix

package index

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Nothing of a file is ever in the folder for temporary files, where it would stay after
// a kill.
func TestACacheFileStaysInItsFolder(t *testing.T) {
	c, _ := newTestCache(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	long := time.Now().Add(-time.Hour).Truncate(time.Second)
	if err := os.Chtimes(temp, long, long); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Save(cachedToolset(t, "s")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(temp); err != nil || !info.ModTime().Equal(long) {
		t.Errorf("something was made in $TMPDIR: %v, %v", info.ModTime(), err)
	}
}

// A file that was open to others is not when it is written again.
func TestACacheFileIsPrivate(t *testing.T) {
	c, root := newTestCache(t)
	path := filepath.Join(root, "s", cacheFile)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("rubbish"), 0o600), os.Chmod(path, 0o644)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Save(cachedToolset(t, "s")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want the mode 0600", info.Mode(), err)
	}
}
