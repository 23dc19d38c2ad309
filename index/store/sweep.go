package store

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// Swept says what a Sweep deleted.
type Swept struct {
	Vectors int      // of the model in use
	Models  []string // that were not used for the time of grace, with all their vectors
}

// Sweep deletes vectors that are not needed any more: those of the model in use
// whose hash keep refuses, and all of models whose last use is longer ago than
// grace. It also notes that model is in use; "" means that none is, and nil keep
// that all of its vectors are needed. keep must not call the store.
//
// The room is given back to the disk by Compact.
func (s *Store) Sweep(model string, keep func(hash [32]byte) bool, grace time.Duration) (Swept, error) {
	const op = "sweep"
	if model != "" {
		s.used(model, 0)
	}
	swept := Swept{Models: s.unused(model, grace)}
	kept := map[string]bool{} // by the name in the key
	s.mu.Lock()
	for name := range s.models {
		kept[safe(name)] = !slices.Contains(swept.Models, name)
	}
	s.mu.Unlock()
	var keys [][]byte
	err := s.read(op, func(g *guard, txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: vectorPrefix})
		defer it.Close()
		mine := under(vectorPrefix, model)
		for it.Rewind(); it.Valid(); it.Next() {
			key := it.Item().Key()
			name, _, _ := strings.Cut(string(key[len(vectorPrefix):]), "/")
			hash, ok := hashIn(key)
			needed := ok && kept[name]
			if needed && keep != nil && model != "" && bytes.HasPrefix(key, mine) {
				_ = g.call(func() error { needed = keep(hash); return nil })
				if !needed {
					swept.Vectors++
				}
			}
			if !needed {
				keys = append(keys, it.Item().KeyCopy(nil))
			}
		}
		return nil
	})
	if err != nil {
		return Swept{}, err
	}
	for _, name := range swept.Models {
		keys = append(keys, modelKey(name))
	}
	if len(keys) == 0 && !s.modelsChanged() {
		return swept, nil
	}
	s.mu.Lock()
	for _, name := range swept.Models {
		delete(s.models, name)
	}
	s.mu.Unlock()
	if err := s.write(op, int64(len(keys))*256, func(b batch) error {
		for _, key := range keys {
			if err := b.Delete(key); err != nil {
				return err
			}
		}
		return s.putModels(b)
	}); err != nil {
		return Swept{}, err
	}
	return swept, nil
}

// unused returns the models whose time of grace is over.
func (s *Store) unused(inUse string, grace time.Duration) []string {
	now := s.options.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name, m := range s.models {
		if name != inUse && now.Sub(m.Last) > grace {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
