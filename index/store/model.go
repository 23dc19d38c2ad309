package store

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// A model is what is known of one embedding model. Its record holds the name,
// whose length is the record's count, and the rest as JSON, which would not keep
// every name as it is.
type model struct {
	Name      string    `json:"-"`
	Dimension int       `json:"dimension"`
	First     time.Time `json:"first"` // of the first vector
	Last      time.Time `json:"last"`  // of the last use, give or take useGrain
	Hits      uint64    `json:"hits"`
	Misses    uint64    `json:"misses"`

	changed bool // since the record was written
}

// useGrain is how old a model's time of last use may be before it is worth a
// write.
const useGrain = time.Hour

// loadModels reads the records of all models.
func (s *Store) loadModels() error {
	return guarded(func() error {
		return s.db.View(func(txn *badger.Txn) error {
			it := txn.NewIterator(badger.IteratorOptions{Prefix: modelPrefix})
			defer it.Close()
			for it.Rewind(); it.Valid(); it.Next() {
				key := it.Item().KeyCopy(nil)
				m := new(model)
				if err := it.Item().Value(func(record []byte) error {
					if !m.decode(key, record) {
						s.fault(key)
						return nil
					}
					s.models[m.Name] = m
					return nil
				}); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func (m *model) decode(key, record []byte) bool {
	count, payload, ok := unseal(key, record, kindModel)
	if !ok || int64(count) > int64(len(payload)) {
		return false
	}
	m.Name = string(payload[:count])
	return json.Unmarshal(payload[count:], m) == nil && bytes.Equal(modelKey(m.Name), key) &&
		m.Dimension >= 1 && m.Dimension <= MaxDimension
}

// dimension returns a model's, and 0 for one that has no vectors.
func (s *Store) dimension(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.models[name]; m != nil {
		return m.Dimension
	}
	return 0
}

// used notes that a model is in use with vectors of a dimension; 0 keeps the
// one that it has, and a model that has none is left out.
func (s *Store) used(name string, dimension int) {
	now := s.options.Now().UTC()
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.models[name]
	switch {
	case m == nil && dimension == 0:
		return
	case m == nil:
		m = &model{Name: name, First: now}
		s.models[name] = m
	case now.Sub(m.Last) < useGrain && now.After(m.Last.Add(-useGrain)) && (dimension == 0 || dimension == m.Dimension):
		return
	}
	if dimension > 0 {
		m.Dimension = dimension
	}
	m.Last, m.changed = now, true
}

// count adds to a model's hits and misses.
func (s *Store) count(name string, hits, misses int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.models[name]; m != nil && hits+misses > 0 {
		m.Hits += uint64(hits)
		m.Misses += uint64(misses)
		m.changed = true
	}
}

// modelNames returns the names of all models, sorted.
func (s *Store) modelNames() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.models))
}

func (s *Store) modelsChanged() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.models {
		if m.changed {
			return true
		}
	}
	return false
}

// putModels writes the records that changed.
func (s *Store) putModels(b batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.models {
		if !m.changed {
			continue
		}
		rest, err := json.Marshal(m)
		if err != nil {
			return err
		}
		key := modelKey(m.Name)
		count := uint32(len(m.Name))
		if err := b.Set(key, encodePayload(key, kindModel, count, append([]byte(m.Name), rest...))); err != nil {
			return err
		}
		m.changed = false
	}
	return nil
}
