package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"
)

// The store of version 0 that these tests build by hand keeps vectors of one
// model, without headers, under v0/<hash>.
const (
	oldVectors = 3000
	oldDim     = 24
)

// fromZero leads from version 0 to 1. at is called behind each step and within.
func fromZero(at func(where string)) schema {
	return schema{version: 1, steps: []step{{from: 0, run: func(txn *badger.Txn, set func(key, value []byte) error) error {
		key := modelKey("old")
		if err := set(key, encodePayload(key, kindModel, 3, []byte(`old{"dimension":24}`))); err != nil {
			return err
		}
		it := txn.NewIterator(badger.IteratorOptions{Prefix: prefixOf(0)})
		defer it.Close()
		n := 0
		for it.Rewind(); it.Valid(); it.Next() {
			hash := it.Item().KeyCopy(nil)[len(prefixOf(0)):]
			v := make([]float32, oldDim)
			if err := it.Item().Value(func(value []byte) error {
				_, err := binary.Decode(value, binary.LittleEndian, v)
				return err
			}); err != nil {
				return err
			}
			key := append(under(vectorPrefix, "old"), hash...)
			if err := set(key, encodeVector(key, v)); err != nil {
				return err
			}
			if n++; n == oldVectors/2 {
				at("within")
			}
		}
		at("written")
		return nil
	}}}}
}

// buildOld makes a store of version 0.
func buildOld(t tester, path string) {
	t.Helper()
	f, err := takeFolder(path, 0)
	if err != nil {
		t.Fatalf("%v", err)
	}
	defer f.release()
	db, err := badger.Open(badgerOptions(filepath.Join(path, "db-1"), memtableSize, func(string, string) {}))
	if err != nil {
		t.Fatalf("%v", err)
	}
	wb := db.NewWriteBatch()
	for _, v := range vectors(0, oldVectors, oldDim, "old") {
		value, err := binary.Append(nil, binary.LittleEndian, v.Values)
		if err == nil {
			err = wb.Set(append(prefixOf(0), v.Hash[:]...), value)
		}
		if err != nil {
			t.Fatalf("%v", err)
		}
	}
	if err := errors.Join(wb.Set(schemaKey, []byte(`{"version":0}`)), wb.Flush(), db.Close()); err != nil {
		t.Fatalf("%v", err)
	}
}

func init() {
	// migrate migrates, and waits to be killed at the place that it is told.
	helpers["migrate"] = func(args []string) error {
		stop := func(where string) {
			if where == args[1] {
				fmt.Println(where)
				_, _ = os.Stdin.Read(make([]byte, 1))
			}
		}
		o := Options{Log: func(level, _ string) {
			if level == "info" { // the new version holds, the old records are still there
				stop("flipped")
			}
		}}
		s, err := open(args[0], o, fromZero(stop))
		if err != nil {
			return err
		}
		stop("dropped")
		return s.Close()
	}
}

// TestMigration brings a store of version 0 to version 1, undisturbed and killed
// at each place in between.
func TestMigration(t *testing.T) {
	for _, where := range []string{"", "within", "written", "flipped", "dropped"} {
		t.Run("killed "+where, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "catalog")
			buildOld(t, path)
			if where != "" {
				cmd := helper(t, "migrate", path, where)
				if _, err := cmd.StdinPipe(); err != nil {
					t.Fatal(err)
				}
				p := start(t, cmd)
				if l := p.line(t); l != where {
					t.Fatalf("the helper says %q", l)
				}
				p.kill()
			}
			for range 2 {
				s, err := open(path, Options{}, fromZero(func(string) {}))
				if err != nil {
					t.Fatal(err)
				}
				if s.Rebuilt() != "" {
					t.Fatalf("rebuilt: %s", s.Rebuilt())
				}
				if n := countTrue(present(t, s, "old", oldVectors, oldDim, "old")); n != oldVectors {
					t.Errorf("%d vectors", n)
				}
				left := 0
				if err := s.db.View(func(txn *badger.Txn) error {
					eachRecord(txn, prefixOf(0), func(*badger.Item) { left++ })
					return nil
				}); err != nil || left != 0 {
					t.Errorf("%d old records are left, %v", left, err)
				}
				if v, err := s.version(); v != 1 || err != nil {
					t.Errorf("version %d, %v", v, err)
				}
				mustClose(t, s)
			}
		})
	}
}

// TestOlderWithoutStep empties a store that no step leads on from.
func TestOlderWithoutStep(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	buildOld(t, path)
	s := mustOpen(t, path, Options{})
	defer mustClose(t, s)
	if !strings.Contains(s.Rebuilt(), "version 0") {
		t.Errorf("rebuilt: %q", s.Rebuilt())
	}
	mustPut(t, s, "m", vectors(0, 3, 3, "s"))
}

// TestNewer leaves a store of a newer program as it is.
func TestNewer(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	newer, err := open(path, Options{}, schema{version: schemaVersion + 1})
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, newer, "m", vectors(0, 10, 3, "s"))
	mustClose(t, newer)
	before := snapshot(t, path)
	if _, err := Open(path, Options{}); !errors.Is(err, ErrNewer) {
		t.Fatalf("Open: %v", err)
	}
	after := snapshot(t, path)
	if len(after) != len(before) {
		t.Errorf("%d files became %d", len(before), len(after))
	}
	for name, content := range before {
		if after[name] != content {
			t.Errorf("%s was touched", name)
		}
	}
	// The record in the database counts where the mark was lost.
	if err := os.Remove(filepath.Join(path, formatFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{}); !errors.Is(err, ErrNewer) {
		t.Fatalf("Open without the mark: %v", err)
	}
	db, err := badger.Open(badgerOptions(dataOf(t, path), memtableSize, func(string, string) {}))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := db.View(func(txn *badger.Txn) error {
		eachRecord(txn, vectorPrefix, func(*badger.Item) { n++ })
		return nil
	}); err != nil || n != 10 {
		t.Errorf("%d vectors are left, %v", n, err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
