package lockedfile_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/lockedfile"
	"github.com/metamcp/metamcp/integration/regular"
)

// TestNoChangeIsLost: processes and goroutines change one file at once.
func TestNoChangeIsLost(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "count")
	const processes, goroutines = 2, 3
	var all sync.WaitGroup
	for range processes {
		all.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), asCounter+"="+path)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("a process: %v: %s", err, out)
			}
		})
	}
	for range goroutines {
		all.Go(func() {
			for range perWriter {
				if err := addOne(t.Context(), path); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	text, err := counter(path).Read()
	if want := strconv.Itoa((processes + goroutines) * perWriter); err != nil || string(text) != want {
		t.Errorf("the file has %q, %v; want %s", text, err, want)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v; want the mode 0600", info, err)
	}
}

func TestChangeThatIsNone(t *testing.T) {
	t.Parallel()
	f := counter(filepath.Join(t.TempDir(), "count"))
	refused := errors.New("refused")
	for _, want := range []error{nil, refused} {
		err := f.Change(t.Context(), func(text []byte) ([]byte, error) {
			if text != nil {
				t.Errorf("a missing file has %q", text)
			}
			return nil, want
		})
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		if _, err := os.Stat(f.Path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a file was made: %v", err)
		}
	}
}

func TestWithoutStateFolder(t *testing.T) {
	t.Parallel()
	f := counter("")
	if text, err := f.Read(); text != nil || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if err := addOne(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "--state-dir") {
		t.Errorf("%v", err)
	}
}

// TestTooLarge: what is too large is neither read nor written, and is left.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	f := counter(filepath.Join(t.TempDir(), "count"))
	f.Max = 2 << 10
	put := func(n int64) error {
		return f.Change(t.Context(), func([]byte) ([]byte, error) { return bytes.Repeat([]byte("1"), int(n)), nil })
	}
	if err := put(f.Max); err != nil {
		t.Fatalf("as much as it may have: %v", err)
	}
	if err := put(f.Max + 1); err == nil || !strings.Contains(err.Error(), "the numbers were not changed") || !strings.Contains(err.Error(), "2 KiB") {
		t.Errorf("one byte more: %v", err)
	}
	if text, err := f.Read(); err != nil || int64(len(text)) != f.Max {
		t.Errorf("%d bytes were left, %v", len(text), err)
	}
	f.Max--
	for name, err := range map[string]error{"read": second(f.Read()), "change": put(1)} {
		if err == nil || !strings.Contains(err.Error(), f.Path) || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := lockedfile.ReadTrusted(f.Path, f.Max); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("read as a file of the user's: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestFolderInPlace: a folder in the file's or the lock's place is told.
func TestFolderInPlace(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{"", ".lock"} {
		path := filepath.Join(t.TempDir(), "count")
		if err := os.Mkdir(path+suffix, 0o700); err != nil {
			t.Fatal(err)
		}
		inPlace(t, path, suffix)
	}
}

// inPlace checks what is said of something in the place of a file or its lock.
func inPlace(t *testing.T, path, suffix string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := addOne(ctx, path)
	if err == nil || !strings.Contains(err.Error(), path+suffix) || !strings.Contains(err.Error(), "no regular file; move it away") {
		t.Errorf("%q: %v", suffix, err)
	}
	if suffix != "" {
		return
	}
	if _, err := counter(path).Read(); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("read: %v", err)
	}
	if _, err := lockedfile.ReadTrusted(path, 1<<20); !errors.Is(err, regular.ErrNotRegular) {
		t.Errorf("read as a file of the user's: %v", err)
	}
}

// TestHeldLock: a lock that is not given back is waited for for a bounded time,
// and not longer than the caller's.
func TestHeldLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockedfile.Lock(t.Context(), path, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	const patience = 50 * time.Millisecond
	_, err = lockedfile.Lock(t.Context(), path, patience)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "50ms") {
		t.Errorf("a lock that is held: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lockedfile.Lock(ended, path, time.Hour); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), path) {
		t.Errorf("a caller that gave up: %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	unlock, err = lockedfile.Lock(t.Context(), path, time.Minute)
	if err != nil {
		t.Fatalf("a lock that was given back: %v", err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
}

func TestLockWithoutFolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "none", "lock")
	if _, err := lockedfile.Lock(t.Context(), path, time.Minute); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
}

func TestReadTrusted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if _, err := lockedfile.ReadTrusted(path, 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := lockedfile.ReadTrusted(path, 4); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
}
