//go:build unix

package regular_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/metamcp/metamcp/integration/regular"
)

// Nobody is at the other end of the pipe, and nobody waits for one.
func TestPipesAreRefused(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, readErr := regular.Read(pipe, 10)
	for what, err := range map[string]error{"read": readErr, "write": regular.Write(pipe, nil)} {
		var failure *fs.PathError
		if !errors.Is(err, regular.ErrNotRegular) || !errors.As(err, &failure) || failure.Path != pipe {
			t.Errorf("%s: %v", what, err)
		}
	}
	if info, err := os.Stat(pipe); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
		t.Errorf("the pipe is now %v, %v", info, err)
	}
}

func TestFilesAreReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if _, _, err := regular.Read(path, 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for _, text := range []string{"a longer text", "short"} {
		if err := regular.Write(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, _, err := regular.Read(path, 100); string(got) != text || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want the mode 0600", info.Mode(), err)
	}
}
