//go:build unix

package control

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/metamcp/metamcp/integration/attach"
)

func shortRegistry(t *testing.T) registry {
	t.Helper()
	dir, err := os.MkdirTemp("", "mm") //nolint:usetesting // the folder of a test is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := newRegistry(dir)
	if err := r.prepare(); err != nil {
		t.Fatal(err)
	}
	return r
}

// A host has the place of its configuration by the way to it as well: after the
// link leads elsewhere, whoever goes by the link meets that host.
func TestPlaceByLink(t *testing.T) {
	r := shortRegistry(t)
	dir := t.TempDir()
	a, b, link := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(a, nil, 0o600), os.WriteFile(b, nil, 0o600), os.Symlink(a, link)); err != nil {
		t.Fatal(err)
	}
	refused := func(path string) {
		t.Helper()
		s, err := r.claimSingle([]string{path})
		var e *Error
		if !errors.As(err, &e) || e.Code != CodeAlreadyRuns {
			t.Errorf("%s: %v, %v", filepath.Base(path), s, err)
		}
	}
	s, err := r.claimSingle([]string{link})
	if err != nil {
		t.Fatal(err)
	}
	refused(a)
	if err := errors.Join(os.Remove(link), os.Symlink(b, link)); err != nil {
		t.Fatal(err)
	}
	refused(link)
	other, err := r.claimSingle([]string{b})
	if err != nil {
		t.Fatalf("the one that was refused keeps a lock: %v", err)
	}
	other.release()
	s.release()
	if s, err = r.claimSingle([]string{link}); err != nil {
		t.Fatal(err)
	}
	s.release()
}

// A pipe in the place of a file of the lock is told, and not waited for.
func TestPlaceWithPipes(t *testing.T) {
	for _, suffix := range []string{".lock", ".pid"} {
		r := shortRegistry(t)
		path := strings.TrimSuffix(r.singlePath(attach.Key(nil)), ".lock") + suffix
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := r.claimSingle(nil); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("%s: %v, %v", suffix, s, err)
		}
	}
}
