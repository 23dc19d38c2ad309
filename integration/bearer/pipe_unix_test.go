//go:build unix

package bearer

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe in the file's place is refused; nobody waits for its other end.
func TestPipeInPlaceOfTheTokens(t *testing.T) {
	s := New(t.TempDir())
	if err := syscall.Mkfifo(filepath.Clean(s.Path()), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.List(); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("%v", err)
	}
}
