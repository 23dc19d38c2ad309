//go:build unix

package plainfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/metamcp/metamcp/index/plainfile"
)

// TestPipesAreRefused: nobody is at the other end of the pipe, and nobody waits for one.
func TestPipesAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	_, openErr := plainfile.Open(pipe, os.O_RDONLY)
	_, readErr := plainfile.Read(pipe, 10)
	for what, err := range map[string]error{"open": openErr, "read": readErr, "write": plainfile.Write(pipe, nil)} {
		var failure *fs.PathError
		if !errors.As(err, &failure) || failure.Path != pipe || !strings.Contains(err.Error(), "no regular file; move it away") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestFilesAreReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if _, err := plainfile.Read(path, 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for _, text := range []string{"a longer text", "short"} {
		if err := plainfile.Write(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := plainfile.Read(path, 4); string(got) != text[:4] || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if got, err := plainfile.Read(path, 100); string(got) != text || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want the mode 0600", info.Mode(), err)
	}
}
