//go:build unix

package privatedir_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/metamcp/metamcp/integration/privatedir"
)

func TestMake(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ before, after os.FileMode }{{0, 0o700}, {0o777, 0o700}, {0o775, 0o700}, {0o755, 0o755}, {0o700, 0o700}, {0o777 | os.ModeSticky, 0o777}} {
		dir := filepath.Join(t.TempDir(), "above", "dir")
		if c.before != 0 {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, c.before); err != nil {
				t.Fatal(err)
			}
		}
		if err := privatedir.Make(dir); err != nil {
			t.Error(err)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != c.after {
			t.Errorf("%o became %v, %v", c.before, info.Mode(), err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := privatedir.Make(file); err == nil {
		t.Error("a file is taken for a folder")
	}
}
