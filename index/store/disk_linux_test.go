package store

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/metamcp/metamcp/integration/diskspace"
)

func init() {
	helpers["disk full"] = func(args []string) error { return inMount(args[0], diskFull) }
	helpers["disk full at once"] = func(args []string) error { return inMount(args[0], diskFullAtOnce) }
	helpers["read-only"] = func(args []string) error { return inMount(args[0], readOnly) }
}

// inMount gives fn a small file system of its own. The process has a mount
// namespace to itself, so that the mount ends with it.
func inMount(at string, fn func(at string) error) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, "size=96m"); err != nil {
		return fmt.Errorf("mounting a tmpfs: %w", err)
	}
	return fn(at)
}

// mounter prepares a helper that may mount: as root in a namespace of its own,
// and as anybody else in one where it is root.
func mounter(t *testing.T, name string) *exec.Cmd {
	t.Helper()
	cmd := helper(t, name, t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return cmd
}

// TestDisk fills a small disk under a store, and mounts it read-only. It needs
// the right to mount, as root or through user namespaces, and fails without.
func TestDisk(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"disk full", "disk full at once", "read-only"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, err := mounter(t, name).CombinedOutput(); err != nil {
				t.Errorf("%v (mounting needs root or unprivileged user namespaces): %.3000s", err, out)
			}
		})
	}
}

// ballast takes all room but leave bytes, and returns what gives it back.
func ballast(at string, leave int64) (release func() error, err error) {
	free, err := diskspace.Free(at)
	if err != nil {
		return nil, err
	}
	name := filepath.Join(at, "ballast")
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := unix.Fallocate(int(f.Fd()), 0, 0, free-leave); err != nil {
		return nil, fmt.Errorf("taking %d bytes: %w", free-leave, err)
	}
	return func() error { return os.Remove(name) }, f.Close()
}

func diskFull(at string) error {
	t := panicker{}
	path := filepath.Join(at, "catalog")
	s := mustOpen(t, path, Options{})
	mustPut(t, s, "m", vectors(0, 500, 64, "s"))
	for _, leave := range []int64{20 << 20, 1 << 20, 0} {
		release, err := ballast(at, leave)
		if err != nil {
			return err
		}
		if err := s.PutVectors("m", vectors(500, 1000, 64, "s")); !errors.Is(err, ErrDiskFull) {
			return fmt.Errorf("with %d bytes left, PutVectors: %w", leave, err)
		}
		if err := s.PutListings(map[string][]byte{"a": text(100, 1)}); !errors.Is(err, ErrDiskFull) {
			return fmt.Errorf("with %d bytes left, PutListings: %w", leave, err)
		}
		if n := countTrue(present(t, s, "m", 1000, 64, "s")); n != 500 {
			return fmt.Errorf("with %d bytes left, %d vectors can be read", leave, n)
		}
		if err := release(); err != nil {
			return err
		}
	}
	mustPut(t, s, "m", vectors(500, 1000, 64, "s"))
	// Write until there is no room, as a host would.
	const long, batch = 1024, 500 // so that it does not take many writes
	var err error
	n := 0
	for ; err == nil; n += batch {
		err = s.PutVectors("long", vectors(n, n+batch, long, "s"))
	}
	if !errors.Is(err, ErrDiskFull) {
		return err
	}
	if got := countTrue(present(t, s, "long", n, long, "s")); got != n-batch {
		return fmt.Errorf("after the disk ran full %d of %d vectors are there", got, n-batch)
	}
	if got := countTrue(present(t, s, "m", 1000, 64, "s")); got != 1000 {
		return fmt.Errorf("after the disk ran full %d of the first 1000 vectors are there", got)
	}
	// A disk without any room at the end: nothing is lost, and the lock stays.
	release, err := ballast(at, 0)
	if err != nil {
		return err
	}
	if err := s.Close(); !errors.Is(err, ErrDiskFull) {
		return fmt.Errorf("Close without room: %w", err)
	}
	if _, err := Open(path, Options{}); !errors.Is(err, ErrLocked) {
		return fmt.Errorf("Open behind a Close without room: %w", err)
	}
	return release()
}

func diskFullAtOnce(at string) error {
	t := panicker{}
	path := filepath.Join(at, "catalog")
	s := mustOpen(t, path, Options{})
	mustPut(t, s, "m", vectors(0, 50, 64, "s"))
	mustClose(t, s)
	for _, leave := range []int64{4 << 20, 0} {
		release, err := ballast(at, leave)
		if err != nil {
			return err
		}
		for _, where := range []string{path, filepath.Join(at, "new", "catalog")} {
			if _, err := Open(where, Options{}); !errors.Is(err, ErrDiskFull) {
				return fmt.Errorf("with %d bytes left, Open of %s: %w", leave, where, err)
			}
		}
		if err := release(); err != nil {
			return err
		}
	}
	s = mustOpen(t, path, Options{})
	if n := countTrue(present(t, s, "m", 50, 64, "s")); n != 50 || s.Rebuilt() != "" {
		return fmt.Errorf("afterwards %d vectors, rebuilt: %s", n, s.Rebuilt())
	}
	return s.Close()
}

func readOnly(at string) error {
	t := panicker{}
	path := filepath.Join(at, "catalog")
	s := mustOpen(t, path, Options{})
	mustClose(t, s)
	if err := unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("mounting it read-only: %w", err)
	}
	for _, where := range []string{path, filepath.Join(at, "new", "catalog")} {
		if _, err := Open(where, Options{}); !errors.Is(err, ErrReadOnly) {
			return fmt.Errorf("Open of %s: %w", where, err)
		}
	}
	return nil
}

// TestPermissionDenied opens a folder that this user may not write. Root may
// write anywhere, so the thread that asks becomes somebody else for the file
// system.
func TestPermissionDenied(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "catalog")
	s := mustOpen(t, path, Options{})
	mustClose(t, s)
	if err := os.Chmod(path, 0o500); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(path, lockFile)); os.Geteuid() != 0 && err == nil {
		t.Fatal("the folder can be written")
	}
	errs := make(chan error, 1)
	go func() {
		if os.Geteuid() == 0 {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			if err := unix.Setfsuid(65534); err != nil {
				errs <- err
				return
			}
		}
		_, err := Open(path, Options{})
		errs <- err
	}()
	if err := <-errs; !errors.Is(err, ErrPermission) {
		t.Errorf("Open: %v", err)
	}
}
