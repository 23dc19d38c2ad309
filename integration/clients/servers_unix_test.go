//go:build unix

package clients

import (
	"os"
	"path/filepath"
	"testing"
)

// A configuration that is a link stays one.
func TestAddThroughLink(t *testing.T) {
	s, file := ownFile(t, "")
	target := write(t, filepath.Join(s.Home, "dotfiles", "mcp.json"), "{}", 0o600)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, file); err != nil {
		t.Fatal(err)
	}
	added(t, s, file, notes)
	info, err := os.Lstat(file)
	if err != nil || info.Mode()&os.ModeSymlink == 0 || read(t, target) == "{}" {
		t.Errorf("%v, %v\n%s", info.Mode(), err, read(t, target))
	}
	if err := os.Remove(target); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PlanAdd(file, []*NewServer{notes}); err == nil {
		t.Error("a link to nothing")
	}
}
