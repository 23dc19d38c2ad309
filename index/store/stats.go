package store

import (
	"cmp"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// Stats describes a store.
type Stats struct {
	Path          string
	SchemaVersion int
	Models        []ModelStats // by name
	Listings      int          // servers with a listing
	ListingBytes  int64
	// DiskBytes is what the folder takes on the disk. The sizes of its files
	// add up to more, because badger keeps sparse files while it is open.
	DiskBytes int64
	// Damaged counts the records that were found damaged since the store was
	// opened.
	Damaged int64
	// Rebuilt says why the store was emptied when it was opened, or is "".
	Rebuilt string
}

// ModelStats describes the vectors of one model.
type ModelStats struct {
	Model     string
	Dimension int
	Vectors   int
	Bytes     int64     // of the records
	FirstUse  time.Time // in UTC
	LastUse   time.Time // in UTC, to the hour
	// Hits and Misses count what Vectors was asked for, since the model's
	// first vector was stored. A killed process takes some of the last ones
	// along.
	Hits, Misses uint64
}

// Stats reads through the store and describes it. May be called from any
// goroutine.
func (s *Store) Stats() (Stats, error) {
	st := Stats{Path: s.path, SchemaVersion: schemaVersion, Rebuilt: s.rebuilt}
	counts := map[string]*ModelStats{}
	s.mu.Lock()
	for name, m := range s.models {
		counts[safe(name)] = &ModelStats{
			Model: name, Dimension: m.Dimension, FirstUse: m.First, LastUse: m.Last, Hits: m.Hits, Misses: m.Misses,
		}
	}
	s.mu.Unlock()
	err := s.read("read statistics", func(_ *guard, txn *badger.Txn) error {
		eachRecord(txn, vectorPrefix, func(item *badger.Item) {
			name, _, _ := strings.Cut(string(item.Key()[len(vectorPrefix):]), "/")
			if m := counts[name]; m != nil {
				m.Vectors++
				m.Bytes += recordSize(item)
			}
		})
		return s.eachListing(txn, toolsPrefix, func(l *storedListing) error {
			if l.sound {
				st.Listings++
				st.ListingBytes += int64(len(l.raw))
			}
			return nil
		})
	})
	if err != nil {
		return Stats{}, err
	}
	for _, m := range counts {
		st.Models = append(st.Models, *m)
	}
	slices.SortFunc(st.Models, func(a, b ModelStats) int { return cmp.Compare(a.Model, b.Model) })
	s.mu.Lock()
	st.Damaged = s.damaged
	s.mu.Unlock()
	st.DiskBytes = diskUse(s.path)
	return st, nil
}

func eachRecord(txn *badger.Txn, prefix []byte, fn func(item *badger.Item)) {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		giveWay()
		fn(it.Item())
	}
}

// giveWay lets those go first who wait for a processor: with thousands of records
// a walk takes some 100 ms, and searches go on meanwhile. The scheduler by itself
// lets them wait for 10 ms at each of their goroutines.
func giveWay() { runtime.Gosched() }

func recordSize(item *badger.Item) int64 { return item.KeySize() + item.ValueSize() }

// diskUse adds up what the files below path take on the disk. Files come and go
// meanwhile; what cannot be read counts nothing.
func diskUse(path string) (bytes int64) {
	_ = filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil //nolint:nilerr // it is gone, or not ours to read
		}
		if info, err := e.Info(); err == nil {
			bytes += realSize(info)
		}
		return nil
	})
	return bytes
}
