//go:build !windows

package secrets_test

import (
	"os"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/secrets"
)

func TestOpenToOthers(t *testing.T) {
	noKeyring(t)
	s := secrets.New(t.TempDir())
	set(t, s, "A", "hush-hush")
	for _, mode := range []os.FileMode{0o644, 0o640, 0o602, 0o660} {
		if err := os.Chmod(s.Path(), mode); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get("A"); err == nil || !strings.Contains(err.Error(), "chmod 600") || strings.Contains(err.Error(), "hush") {
			t.Errorf("mode %o: %v", mode, err)
		}
		if _, err := s.Set(t.Context(), "B", "x", false); err == nil {
			t.Errorf("mode %o: it was written to", mode)
		}
	}
	if err := os.Remove(s.Path()); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.Path(), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get("A"); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a folder: %v", err)
	}
}

// A folder in which others could put another file in the place of the store is closed.
func TestFolderOpenToOthers(t *testing.T) {
	noKeyring(t)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	s := secrets.New(dir)
	set(t, s, "A", "hush-hush")
	want(t, s, "A", "hush-hush")
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v, %v", info.Mode(), err)
	}
}
