//go:build unix

package bearer

import (
	"os"
	"testing"
)

// A file that others can write to lets nobody in.
func TestAPublicFileLetsNobodyIn(t *testing.T) {
	s := New(t.TempDir())
	token, err := s.Add(t.Context(), "a", 0, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.Path(), 0o666); err != nil {
		t.Fatal(err)
	}
	fresh := New(s.dir)
	if _, err := fresh.Check(token); err == nil {
		t.Error("somebody got in")
	}
	if _, err := fresh.Add(t.Context(), "b", 0, false); err == nil {
		t.Error("the file was replaced")
	}
}
