//go:build unix

package store

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A lock that was given up is free, although a process that is just being started has
// the descriptor still.
func TestUnlockWhileAProcessStarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	one, two := open(), open()
	if err := tryLock(one); err != nil {
		t.Fatal(err)
	}
	child, err := syscall.Dup(int(one.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(child) }()
	if err := tryLock(two); err == nil {
		t.Error("two have the lock")
	}
	if err := unlock(one); err != nil {
		t.Error(err)
	}
	if err := tryLock(two); err != nil {
		t.Errorf("nobody has the lock, and it cannot be taken: %v", err)
	}
	if err := unlock(two); err != nil {
		t.Error(err)
	}
}
