package store

import (
	"os"

	"github.com/dgraph-io/badger/v4"
)

// slack is how much dead weight is not worth the work of a compaction, in bytes.
const slack = 8 << 20

// Compact gives the room of overwritten and deleted records back to the disk
// where that is worth while: when badger's tables take half as much again as the
// records in them, and 8 MiB. It returns how many bytes of the disk it freed. It
// may take seconds for a large store, and reads go on meanwhile; call it after a
// Sweep. Records that were written since the last memtable became a table are
// not touched.
func (s *Store) Compact() (freed int64, err error) {
	const op = "compact"
	s.writer.Lock()
	defer s.writer.Unlock()
	var live int64
	if err := s.read(op, func(_ *guard, txn *badger.Txn) error {
		eachRecord(txn, nil, func(item *badger.Item) { live += recordSize(item) })
		return nil
	}); err != nil {
		return 0, err
	}
	tables := s.tablesSize()
	if tables < live+live/2+slack {
		return 0, nil
	}
	s.life.RLock()
	defer s.life.RUnlock()
	if s.closed {
		return 0, fail(op, s.path, ErrClosed)
	}
	if why := s.broken.Load(); why != nil {
		return 0, fail(op, s.path, *why)
	}
	if err := s.intact(); err != nil {
		return 0, fail(op, s.path, err)
	}
	err = s.merge(tables)
	return max(0, tables-s.tablesSize()), fail(op, s.path, err)
}

// newTables is how many tables that memtables became are left as they are: each read
// looks into all of them, and to merge them may be to write the whole store anew.
const newTables = 4

// settle follows a write: it merges the tables that memtables became since the last
// time, once they are some. What was written is safe without it, so that a failure is
// only told. s.writer and s.life are held.
func (s *Store) settle() {
	if s.db.Levels()[0].NumTables < newTables {
		return
	}
	if err := s.merge(s.tablesSize()); err != nil && !s.unsettled {
		s.unsettled = true // once is enough
		s.options.Log("warn", "the tables of the index store could not be merged: "+err.Error())
	}
}

// merge makes one level of all tables, which have so many bytes.
func (s *Store) merge(tables int64) error {
	if err := s.room(tables / 3); err != nil {
		return err
	}
	return guarded(func() error { return s.db.Flatten(1) })
}

// tablesSize adds up badger's tables.
func (s *Store) tablesSize() (bytes int64) {
	names, err := filesIn(s.data, ".sst")
	if err != nil {
		return 0
	}
	for _, name := range names {
		if info, err := os.Stat(name); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}
