//go:build unix

package audit

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/metamcp/metamcp/integration/regular"
)

// TestPipesInPlace: nobody is at the other end of a pipe in the place of a file of the
// log, and nobody waits for one.
func TestPipesInPlace(t *testing.T) {
	for _, suffix := range []string{"", headSuffix, keySuffix, lockSuffix} {
		path := place(t)
		if err := unix.Mkfifo(path+suffix, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Options{Path: path, Name: "host"}); !errors.Is(err, regular.ErrNotRegular) || !strings.Contains(err.Error(), path+suffix) {
			t.Errorf("%q: %v", suffix, err)
		}
	}
	path := place(t)
	if err := unix.Mkfifo(path+headSuffix+".new", 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (&headFile{V: Version}).write(path); !errors.Is(err, regular.ErrNotRegular) {
		t.Errorf("the new head: %v", err)
	}
}
