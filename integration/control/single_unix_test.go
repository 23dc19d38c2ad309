//go:build unix

package control

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
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
		if !alreadyRuns(err) {
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

// A host that follows other files has their place and no longer the one before, and
// who looks for it finds it by them. Where it cannot have the place all stays as it was.
func TestFollow(t *testing.T) {
	r := shortRegistry(t)
	state, file, taken := filepath.Dir(r.dir), filepath.Join(t.TempDir(), "file"), filepath.Join(t.TempDir(), "taken")
	s, err := Serve(Options{Host: nobodyAsks{}, StateDir: state, Name: "h", Attach: func(context.Context, *os.File, *os.File, attach.Hello) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	is := func(configs ...string) {
		t.Helper()
		if found := attach.Find(state, configs); len(found) != 1 || found[0].PID != os.Getpid() || found[0].Socket != s.Info().Socket {
			t.Errorf("by %q there are %+v", configs, found)
		}
		if got := s.Info().Configs; !slices.Equal(got, configs) {
			t.Errorf("it says that it is of %q, not %q", got, configs)
		}
		if _, err := r.claimSingle(configs); !alreadyRuns(err) {
			t.Errorf("the place of %q is free: %v", configs, err)
		}
	}
	isFree := func(configs ...string) {
		t.Helper()
		if found := attach.Find(state, configs); len(found) > 0 {
			t.Errorf("by %q there are %+v", configs, found)
		}
		one, err := r.claimSingle(configs)
		if err != nil {
			t.Fatalf("the place of %q: %v", configs, err)
		}
		one.release()
	}
	is()
	other, err := r.claimSingle([]string{taken})
	if err != nil {
		t.Fatal(err)
	}
	defer other.release()
	if err := s.Follow(t.Context(), []string{taken}); !alreadyRuns(err) {
		t.Errorf("to the place of another: %v", err)
	}
	is()
	if err := s.Follow(t.Context(), []string{file}); err != nil {
		t.Fatal(err)
	}
	is(file)
	isFree()
	if err := os.Remove(r.infoPath("h")); err != nil {
		t.Fatal(err)
	}
	if err := s.Follow(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("after somebody removed the file: %v", err)
	}
	isFree()
	if err := errors.Join(s.Withdraw(t.Context()), s.Follow(t.Context(), nil)); err != nil {
		t.Errorf("after it withdrew: %v", err)
	}
	isFree()
	isFree(file)
}

func alreadyRuns(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == CodeAlreadyRuns
}

// nobodyAsks is a host that nobody asks anything.
type nobodyAsks struct{ Host }
