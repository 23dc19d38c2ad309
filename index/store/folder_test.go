package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/dgraph-io/badger/v4"
)

// TestForeign refuses what is not ours, and leaves it as it is.
func TestForeign(t *testing.T) {
	for name, build := range map[string]func(path string) error{
		"a file":            func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) },
		"photos":            func(path string) error { return writeAll(path, "holiday.jpg") },
		"a data folder":     func(path string) error { return writeAll(path, "db-1/important") },
		"another's mark":    func(path string) error { return writeAll(path, formatFile, "letters") },
		"a mark and photos": func(path string) error { return writeAll(path, formatFile, "db-2/x") },
		"a lock folder":     func(path string) error { return writeAll(path, lockFile+"/x") },
		"another's badger": func(path string) error {
			if err := os.MkdirAll(path, 0o700); err != nil {
				return err
			}
			db, err := badger.Open(badger.DefaultOptions(path).WithLogger(nil).WithMemTableSize(largestMemtable))
			if err != nil {
				return err
			}
			return db.Close()
		},
		"another's badger below": func(path string) error {
			if err := os.MkdirAll(filepath.Join(path, "db-1"), 0o700); err != nil {
				return err
			}
			db, err := badger.Open(badger.DefaultOptions(filepath.Join(path, "db-1")).WithLogger(nil).WithMemTableSize(largestMemtable))
			if err != nil {
				return err
			}
			return db.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "catalog")
			if err := build(path); err != nil {
				t.Fatal(err)
			}
			before := snapshot(t, path)
			if _, err := Open(path, Options{}); !errors.Is(err, ErrForeign) {
				t.Fatalf("Open: %v", err)
			}
			after := snapshot(t, path)
			for name, content := range before {
				if after[name] != content {
					t.Errorf("%s was touched", name)
				}
			}
			if len(after) != len(before) {
				t.Errorf("%d files became %d", len(before), len(after))
			}
		})
	}
}

func writeAll(path string, names ...string) error {
	for _, name := range names {
		name = filepath.Join(path, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte("mine"), 0o600)); err != nil {
			return err
		}
	}
	return nil
}

// TestLostMark opens a store whose mark was lost or damaged.
func TestLostMark(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	s := mustOpen(t, path, Options{})
	mustPut(t, s, "m", vectors(0, 3, 3, "s"))
	mustClose(t, s)
	for _, lose := range []func(string) error{
		os.Remove,
		func(name string) error { return os.WriteFile(name, []byte("\x00\x00\x00"), 0o600) },
	} {
		if err := lose(filepath.Join(path, formatFile)); err != nil {
			t.Fatal(err)
		}
		s = mustOpen(t, path, Options{})
		if n := countTrue(present(t, s, "m", 3, 3, "s")); n != 3 || s.Rebuilt() != "" {
			t.Errorf("%d vectors, rebuilt: %s", n, s.Rebuilt())
		}
		mustClose(t, s)
	}
}

// TestFolderDeleted deletes the folder of an open store, in a process of its own
// since badger cannot be ended cleanly then.
func TestFolderDeleted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "catalog")
	if out, err := helper(t, "deleted", path).CombinedOutput(); err != nil {
		t.Errorf("%v: %.2000s", err, out)
	}
	s := mustOpen(t, path, Options{})
	defer mustClose(t, s)
	if n := countTrue(present(t, s, "m", 10, 3, "s")); n != 7 {
		t.Errorf("%d vectors", n)
	}
}

func init() {
	helpers["deleted"] = func(args []string) error {
		path := args[0]
		s := mustOpen(panicker{}, path, Options{})
		mustPut(panicker{}, s, "m", vectors(0, 10, 3, "s"))
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		if n := countTrue(present(panicker{}, s, "m", 10, 3, "s")); n != 10 {
			return errors.New("reading does not work any more")
		}
		if err := s.PutVectors("m", vectors(0, 1, 3, "t")); !errors.Is(err, ErrBroken) {
			return errors.Join(errors.New("writing to a deleted folder is not ErrBroken"), err)
		}
		// Another takes the place.
		next := mustOpen(panicker{}, path, Options{})
		mustPut(panicker{}, next, "m", vectors(0, 7, 3, "s"))
		if err := s.PutVectors("m", vectors(0, 1, 3, "t")); !errors.Is(err, ErrBroken) {
			return errors.Join(errors.New("writing to a replaced folder is not ErrBroken"), err)
		}
		if err := s.Close(); !errors.Is(err, ErrBroken) {
			return errors.Join(errors.New("closing says nothing"), err)
		}
		return next.Close()
	}
}
