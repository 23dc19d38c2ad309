package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dgraph-io/badger/v4"
)

// TestLogOfALargerMemtable opens a store whose host had larger memtables and was
// killed: its log does not fit into one of today's.
func TestLogOfALargerMemtable(t *testing.T) {
	t.Parallel()
	const dimension, count = 64, 20_000
	path, killed := t.TempDir(), filepath.Join(t.TempDir(), "killed")
	s := mustOpen(t, path, Options{})
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.db, err = badger.Open(badgerOptions(s.data, largestMemtable, s.options.Log)); err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, "m", vectors(0, count, dimension, "s"))
	if err := os.CopyFS(killed, os.DirFS(path)); err != nil { // as a kill leaves it
		t.Fatal(err)
	}
	mustClose(t, s)
	if size, err := memtableFor(dataOf(t, killed)); err != nil || size != largestMemtable {
		t.Fatalf("its log fits into a memtable of %d bytes, %v", size, err)
	}
	s = mustOpen(t, killed, Options{})
	defer mustClose(t, s)
	if why := s.Rebuilt(); why != "" {
		t.Errorf("it was emptied: %s", why)
	}
	if n := countTrue(present(t, s, "m", count, dimension, "s")); n != count {
		t.Errorf("%d of %d vectors are left", n, count)
	}
}
