package rotate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/metamcp/metamcp/integration/rotate"
)

// TestManyWriters has writers that all find the file large at about the same time.
// No line is lost, and no file is put away before it is large.
func TestManyWriters(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	const writers, lines, limit, keep = 8, 400, 1000, 60
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for n := range lines {
				if err := write(path, fmt.Sprintf("%d/%03d 0123456789\n", i, n), limit, keep); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	seen := map[string]int{}
	for i := range keep + 2 {
		name := path
		if i > 0 {
			name = fmt.Sprintf("%s.%d", path, i)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			continue // not as many were needed
		}
		if i > 0 && len(text) < limit {
			t.Errorf("%s was put away with %d bytes", name, len(text))
		}
		for line := range strings.Lines(string(text)) {
			seen[line]++
		}
	}
	for i := range writers {
		for n := range lines {
			if line := fmt.Sprintf("%d/%03d 0123456789\n", i, n); seen[line] != 1 {
				t.Fatalf("%q is there %d times", line, seen[line])
			}
		}
	}
}

// write appends one line as a process does that has the file open for it alone.
func write(path, line string, limit int64, keep int) error {
	for {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err != nil {
			return errors.Join(err, f.Close())
		}
		if info.Size() < limit {
			_, err := f.WriteString(line)
			return errors.Join(err, f.Close())
		}
		if err := f.Close(); err != nil {
			return err
		}
		if err := rotate.File(path, info, keep); err != nil {
			return err
		}
	}
}

func TestOnlyTheFileThatWasOpened(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	info := file(t, path, "old")
	for _, keep := range []int{3, 1} {
		if err := rotate.File(path, info, keep); err != nil {
			t.Fatal(err)
		}
		if err := rotate.File(path, info, keep); err != nil { // there is none
			t.Fatal(err)
		}
		next := file(t, path, "new")
		if err := rotate.File(path, info, keep); err != nil { // it is another
			t.Fatal(err)
		}
		if text, _ := os.ReadFile(path); string(text) != "new" || rotate.Is(path, info) || !rotate.Is(path, next) {
			t.Errorf("the file holds %s", text)
		}
		info = next
	}
	if text, _ := os.ReadFile(path + ".1"); string(text) != "new" {
		t.Errorf("the file before holds %s", text)
	}
	if _, err := os.Stat(path + ".2"); err == nil {
		t.Error("more are kept than asked for")
	}
}

func TestALockThatIsHeld(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	info := file(t, path, "text")
	lock := flock.New(path + ".lock")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if held, err := lock.TryLockContext(ctx, time.Millisecond); !held {
		t.Fatal(err)
	}
	if err := rotate.File(path, info, 3); !errors.Is(err, rotate.ErrHeld) || !strings.Contains(err.Error(), path+".lock") {
		t.Errorf("error %v", err)
	}
	if !rotate.Is(path, info) {
		t.Error("the file was put away")
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if err := rotate.File(path, info, 3); err != nil {
		t.Error(err)
	}
}

func file(t *testing.T, path, text string) os.FileInfo {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}
