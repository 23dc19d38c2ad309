package store

import (
	"fmt"
	"testing"
)

// TestGrowth rewrites the same vectors thirty times, with other numbers each
// time, and finds the folder no larger than a few copies.
func TestGrowth(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	s := mustOpen(t, path, Options{})
	const count, dimension = 2000, 96
	one := int64(count * (4*dimension + 100))
	var peak int64
	items := vectors(0, count, dimension, "s")
	for round := range 30 {
		for i := range items {
			items[i].Values[0] = float32(round)
		}
		mustPut(t, s, "m", items)
		if round%10 == 9 { // as a host that is started anew from time to time
			mustClose(t, s)
			s = mustOpen(t, path, Options{})
		}
		if _, err := s.Compact(); err != nil {
			t.Fatal(err)
		}
		peak = max(peak, diskUse(path))
	}
	st, err := s.Stats()
	if err != nil || st.Models[0].Vectors != count {
		t.Fatalf("stats: %+v, %v", st, err)
	}
	mustClose(t, s)
	end := diskUse(path)
	t.Logf("one copy %d KiB, peak %d KiB, at the end %d KiB", one>>10, peak>>10, end>>10)
	// Two memtables' logs, the slack that Compact tolerates, and a compaction.
	if bound := 3*one + 2*memtableSize + 3*slack; peak > bound {
		t.Errorf("the folder took %d bytes, which is over %d", peak, bound)
	}
	if bound := 2*one + slack + memtableSize; end > bound {
		t.Errorf("in the end the folder takes %d bytes, which is over %d", end, bound)
	}
}

// TestSweptRoomIsFreed deletes most vectors and gives their room back.
func TestSweptRoomIsFreed(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	s := mustOpen(t, path, Options{})
	for i := range 8 {
		mustPut(t, s, fmt.Sprint("m", i), vectors(0, 1000, 512, "s"))
	}
	mustClose(t, s)
	before := diskUse(path)
	s = mustOpen(t, path, Options{})
	if swept, err := s.Sweep("m0", nil, -1); err != nil || len(swept.Models) != 7 {
		t.Fatalf("swept %+v, %v", swept, err)
	}
	mustClose(t, s)
	s = mustOpen(t, path, Options{})
	freed, err := s.Compact()
	if err != nil {
		t.Fatal(err)
	}
	if n := countTrue(present(t, s, "m0", 1000, 512, "s")); n != 1000 {
		t.Errorf("%d vectors are left", n)
	}
	mustClose(t, s)
	after := diskUse(path)
	t.Logf("%d KiB, %d freed, %d KiB after", before>>10, freed>>10, after>>10)
	if after > before/2 {
		t.Errorf("%d bytes became %d", before, after)
	}
}

// TestNewTablesAreMerged: tables do not pile up, though nothing looks after them while
// nobody writes.
func TestNewTablesAreMerged(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir(), Options{})
	most := 0
	for i := range 12 {
		mustPut(t, s, "m", vectors(i*1000, (i+1)*1000, 512, "s")) // a memtable each
		most = max(most, s.db.Levels()[0].NumTables)
	}
	if most >= newTables+2 {
		t.Errorf("%d tables were left", most)
	}
	if n := countTrue(present(t, s, "m", 12_000, 512, "s")); n != 12_000 {
		t.Errorf("%d vectors are left", n)
	}
	mustClose(t, s)
}
