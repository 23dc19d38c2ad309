package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// harms are what people and their tools do to the files of an open store.
var harms = map[string]func(data string) error{
	"its table is emptied":       func(data string) error { return cut(data, ".sst", 0) },
	"its table is cut":           func(data string) error { return cut(data, ".sst", 100) },
	"its log is emptied":         func(data string) error { return cut(data, ".mem", 0) },
	"its statistics are emptied": func(data string) error { return cut(data, "DISCARD", 0) },
	"its database is deleted":    os.RemoveAll,
	"its database is replaced": func(data string) error {
		return errors.Join(os.Rename(data, data+".old"), os.Mkdir(data, 0o700))
	},
	"its whole folder is deleted": func(data string) error { return os.RemoveAll(filepath.Dir(data)) },
}

func cut(data, kind string, size int64) error {
	entries, err := os.ReadDir(data)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) == kind || e.Name() == kind {
			return os.Truncate(filepath.Join(data, e.Name()), size)
		}
	}
	return fmt.Errorf("there is no %s file", kind)
}

func init() {
	helpers["harmed"] = func(args []string) error {
		path, how := args[0], args[1]
		var hashes [][32]byte
		for _, v := range vectors(0, damageVectors, damageDim, "s") {
			hashes = append(hashes, v.Hash)
		}
		s := mustOpen(panicker{}, path, Options{})
		mustPut(panicker{}, s, "m", vectors(0, damageVectors, damageDim, "s"))
		mustClose(panicker{}, s) // makes a table
		s = mustOpen(panicker{}, path, Options{})
		mustPut(panicker{}, s, "m", vectors(damageVectors, damageVectors+10, damageDim, "s"))
		for round := range 3 {
			if err := harms[how](dataOf(panicker{}, path)); err != nil {
				return err
			}
			// What was read before may be gone; that must not end the process.
			_, _ = s.Vectors("m", hashes, func(int, []float32) {})
			if err := s.PutVectors("m", vectors(1000, 1100, damageDim, "s")); !errors.Is(err, ErrBroken) {
				return fmt.Errorf("writing says %w", err)
			}
			if err := s.Close(); !errors.Is(err, ErrBroken) {
				return fmt.Errorf("closing says %w", err)
			}
			s = mustOpen(panicker{}, path, Options{})
			if s.Rebuilt() == "" {
				return errors.New("the new one does not say that it was made anew")
			}
			mustPut(panicker{}, s, "m", vectors(0, damageVectors, damageDim, "s"))
			if round < 2 { // the next harm needs a table again
				mustClose(panicker{}, s)
				s = mustOpen(panicker{}, path, Options{})
			}
			if n := countTrue(present(panicker{}, s, "m", damageVectors, damageDim, "s")); n != damageVectors {
				return fmt.Errorf("%d vectors in round %d", n, round)
			}
		}
		return s.Close()
	}
}

// TestHarmed takes away or cuts the files of an open store, in a process of
// its own since badger may end it. The process lives on, and may open the
// store again at once.
func TestHarmed(t *testing.T) {
	t.Parallel()
	for how := range harms {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "catalog")
			if out, err := helper(t, "harmed", path, how).CombinedOutput(); err != nil {
				t.Fatalf("%v: %.2000s", err, out)
			}
			s := mustOpen(t, path, Options{})
			defer mustClose(t, s)
			if n := countTrue(present(t, s, "m", damageVectors, damageDim, "s")); n != damageVectors || s.Rebuilt() != "" {
				t.Errorf("afterwards %d vectors, rebuilt: %s", n, s.Rebuilt())
			}
		})
	}
}
