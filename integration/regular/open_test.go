//go:build unix

package regular_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/metamcp/metamcp/integration/regular"
)

func TestOpenTakesRegularFilesOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, pipe, link := filepath.Join(dir, "file"), filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, link} {
		f, err := regular.Open(path, os.O_RDONLY)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(f); string(text) != "text" || err != nil {
			t.Errorf("%s: %q, %v", path, text, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	// Nobody is at the other end of the pipe: a plain open would wait for ever.
	for _, path := range []string{pipe, dir, os.DevNull} {
		var failure *fs.PathError
		if f, err := regular.Open(path, os.O_RDONLY); !errors.Is(err, regular.ErrNotRegular) || !errors.As(err, &failure) || f != nil {
			t.Errorf("%s: %v, %v; want ErrNotRegular", path, f, err)
		}
	}
	if _, err := regular.Open(filepath.Join(dir, "none"), os.O_RDONLY); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	made, err := regular.Open(filepath.Join(dir, "made"), os.O_WRONLY|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := made.Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("a made file: %v, %v", info.Mode(), err)
	}
	if err := made.Close(); err != nil {
		t.Error(err)
	}
}

func TestReadIsBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if err := errors.Join(os.WriteFile(path, []byte("text"), 0o600), os.Chmod(path, 0o640)); err != nil {
		t.Fatal(err)
	}
	text, info, err := regular.Read(path, 4)
	if err != nil || string(text) != "text" {
		t.Fatalf("%q, %v", text, err)
	}
	if cap(text) > len(text)+8 { // the least that is allocated
		t.Errorf("room for %d bytes is kept with %d", cap(text), len(text))
	}
	if open := regular.Others(info); open != 0o040 {
		t.Errorf("others may %o, want 40", open)
	}
	var failure *fs.PathError
	if _, _, err := regular.Read(path, 3); !errors.Is(err, regular.ErrTooLarge) || !errors.As(err, &failure) {
		t.Errorf("a byte too many: %v", err)
	}
	// Its size is said to be 0.
	if _, _, err := regular.Read("/proc/self/status", 3); runtime.GOOS == "linux" && !errors.Is(err, regular.ErrTooLarge) {
		t.Errorf("more than its size says: %v", err)
	}
}
