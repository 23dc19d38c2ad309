package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// A schema is the version of the records that a program writes, and the steps
// that lead to it.
type schema struct {
	version int
	steps   []step
}

// A step makes the records of the version after from out of those of from. It
// writes under the new version's prefix only and may be run again after it was
// cut short; the old records are deleted when the new version holds.
type step struct {
	from int
	run  func(txn *badger.Txn, set func(key, value []byte) error) error
}

// current is the schema of this program. Version 1 is the first that was
// published, so that no step leads to it.
var current = schema{version: schemaVersion}

// schemaRecord is the value of schemaKey, as JSON.
type schemaRecord struct {
	Version int       `json:"version"`
	Written time.Time `json:"written"`
}

// migrate brings the database to the schema's version: each step writes the new
// records, then one transaction makes the new version hold, then the old records
// go. A crash between any two of these is made good by the next start.
func (s *Store) migrate(to schema) error {
	version, err := s.version()
	if err != nil {
		return err
	}
	if version == unmarked {
		return s.setVersion(to.version)
	}
	if version > to.version {
		return fmt.Errorf("%w: its schema version is %d, and %d is understood", ErrNewer, version, to.version)
	}
	for version < to.version {
		next, err := s.step(to, version)
		if err != nil {
			return err
		}
		s.options.Log("info", fmt.Sprintf("the index store was migrated from schema version %d to %d", version, next))
		version = next
	}
	return s.dropBefore(version)
}

// version reads the schema record; a new database has none.
func (s *Store) version() (int, error) {
	version := unmarked
	err := guarded(func() error {
		return s.db.View(func(txn *badger.Txn) error {
			item, err := txn.Get(schemaKey)
			if errors.Is(err, badger.ErrKeyNotFound) {
				it := txn.NewIterator(badger.IteratorOptions{})
				defer it.Close()
				if it.Rewind(); it.Valid() {
					return damaged("its schema record is missing")
				}
				return nil
			}
			if err != nil {
				return err
			}
			return item.Value(func(value []byte) error {
				record := schemaRecord{Version: unmarked}
				if err := json.Unmarshal(value, &record); err != nil || record.Version < 0 {
					return damaged("its schema record is unreadable")
				}
				version = record.Version
				return nil
			})
		})
	})
	return version, err
}

func (s *Store) setVersion(version int) error {
	value, err := json.Marshal(schemaRecord{Version: version, Written: s.options.Now().UTC()})
	if err != nil {
		return err
	}
	return guarded(func() error {
		if err := s.db.Update(func(txn *badger.Txn) error { return txn.Set(schemaKey, value) }); err != nil {
			return err
		}
		return s.sync()
	})
}

// step takes one step from version and returns the version that now holds.
func (s *Store) step(to schema, version int) (int, error) {
	for _, m := range to.steps {
		if m.from != version {
			continue
		}
		if err := guarded(func() error {
			wb := s.db.NewWriteBatch()
			defer wb.Cancel()
			wb.SetMaxPendingTxns(4)
			if err := s.db.View(func(txn *badger.Txn) error { return m.run(txn, wb.Set) }); err != nil {
				return err
			}
			if err := wb.Flush(); err != nil {
				return err
			}
			return s.sync()
		}); err != nil {
			return version, err
		}
		return version + 1, s.setVersion(version + 1)
	}
	return version, damaged("no step leads on from its schema version %d", version)
}

// dropBefore deletes the records of versions that hold no more.
func (s *Store) dropBefore(version int) error {
	return guarded(func() error {
		var old [][]byte
		if err := s.db.View(func(txn *badger.Txn) error {
			for v := range version {
				prefix := prefixOf(v)
				it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
				if it.Rewind(); it.Valid() {
					old = append(old, prefix)
				}
				it.Close()
			}
			return nil
		}); err != nil || len(old) == 0 {
			return err
		}
		return s.db.DropPrefix(old...)
	})
}
