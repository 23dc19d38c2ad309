//go:build unix

package rotate_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/metamcp/metamcp/integration/regular"
	"github.com/metamcp/metamcp/integration/rotate"
)

// TestPipeAsLock: nobody waits for the other end of a pipe in the lock's place, and
// nothing is changed.
func TestPipeAsLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	if err := errors.Join(os.WriteFile(path, []byte("text"), 0o600), syscall.Mkfifo(path+".lock", 0o600)); err != nil {
		t.Fatal(err)
	}
	opened, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := rotate.File(path, opened, 3); !errors.Is(err, regular.ErrNotRegular) || !strings.Contains(err.Error(), path+".lock") {
		t.Errorf("%v", err)
	}
	if !rotate.Is(path, opened) {
		t.Error("the log was put away")
	}
}
