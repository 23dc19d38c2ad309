package store

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/dgraph-io/badger/v4"
)

const (
	// MaxDimension is the largest dimension of a vector.
	MaxDimension = 1 << 16
	// MaxModelName is the longest name of a model, in bytes.
	MaxModelName = 1 << 12
)

// A Vector is the embedding of one text.
type Vector struct {
	Hash   [32]byte // SHA-256 of the text
	Values []float32
}

// Vectors calls into for each hash that the model has an embedding of: i is the
// place of the hash in hashes, and v the vector, which is valid during the call
// only. The calls come in no particular order, from this goroutine, and into
// must not call the store. A vector that is damaged, or of another dimension
// than the model's newest, is not found. It returns how many were found. The model
// counts as used, of which a killed process may take the note along.
//
// All is read from one moment of the store. May be called from any goroutine.
func (s *Store) Vectors(model string, hashes [][32]byte, into func(i int, v []float32)) (found int, err error) {
	err = s.read("read vectors", func(g *guard, txn *badger.Txn) error {
		dimension := s.dimension(model)
		if dimension == 0 || len(hashes) == 0 {
			return nil
		}
		v := make([]float32, dimension)
		return eachOf(txn, model, hashes, func(i int, key, record []byte) error {
			if !decodeVector(key, record, v) {
				s.fault(key)
				return nil
			}
			found++
			return g.call(func() error { into(i, v); return nil })
		})
	})
	if err == nil {
		s.used(model, 0)
		s.count(model, found, len(hashes)-found)
	}
	return found, err
}

// eachOf calls fn with the record of each hash that the model has one of. It
// walks along the keys and the sorted hashes together.
func eachOf(txn *badger.Txn, model string, hashes [][32]byte, fn func(i int, key, record []byte) error) error {
	order := make([]int, len(hashes))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return bytes.Compare(hashes[a][:], hashes[b][:]) })
	prefix := under(vectorPrefix, model)
	it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	// maxSteps is how many keys are passed one by one before a seek is cheaper.
	const maxSteps = 16
	key := bytes.Clone(prefix)
	for n, i := range order {
		giveWay()
		key = append(key[:len(prefix)], hashes[i][:]...)
		if n == 0 {
			it.Seek(key)
		}
		order := 1
		for range maxSteps {
			if !it.Valid() {
				return nil
			}
			if order = bytes.Compare(it.Item().Key(), key); order >= 0 {
				break
			}
			it.Next()
		}
		if order < 0 {
			it.Seek(key)
			if !it.Valid() {
				return nil
			}
			order = bytes.Compare(it.Item().Key(), key)
		}
		if order != 0 {
			continue
		}
		if err := it.Item().Value(func(record []byte) error { return fn(i, key, record) }); err != nil {
			return err
		}
	}
	return nil
}

// PutVectors stores embeddings of a model. When it returns nil they are on disk,
// and neither a kill nor the loss of power takes them away; after an error any
// part of them may be. What is stored already is not written again.
//
// All vectors must be of one dimension, from 1 to MaxDimension, and finite. When
// it differs from that of the model's older vectors, those are given up.
func (s *Store) PutVectors(model string, items []Vector) error {
	const op = "write vectors"
	if len(items) == 0 {
		return nil
	}
	dimension := len(items[0].Values)
	hashes := make([][32]byte, len(items))
	for i, item := range items {
		if err := checkVector(item.Values, dimension); err != nil {
			return fail(op, s.path, fmt.Errorf("vector %d of %d of the model %.100q: %w", i+1, len(items), model, err))
		}
		hashes[i] = item.Hash
	}
	if model == "" || len(model) > MaxModelName {
		return fail(op, s.path, fmt.Errorf("the name of the model %.100q has %d bytes, and 1 to %d are possible", model, len(model), MaxModelName))
	}
	known := make([]bool, len(items))
	if err := s.read(op, func(_ *guard, txn *badger.Txn) error {
		v := make([]float32, dimension)
		return eachOf(txn, model, hashes, func(i int, key, record []byte) error {
			known[i] = decodeVector(key, record, v) && slices.Equal(v, items[i].Values)
			return nil
		})
	}); err != nil {
		return err
	}
	size := int64(len(items)) * int64(headerSize+4*dimension+len(vectorPrefix)+len(safe(model))+64)
	return s.write(op, size, func(b batch) error {
		s.used(model, dimension)
		if err := s.putModels(b); err != nil {
			return err
		}
		prefix := under(vectorPrefix, model)
		for i, item := range items {
			if known[i] {
				continue
			}
			key := append(bytes.Clone(prefix), item.Hash[:]...)
			if err := b.Set(key, encodeVector(key, item.Values)); err != nil {
				return err
			}
		}
		return nil
	})
}

func checkVector(v []float32, dimension int) error {
	switch {
	case len(v) == 0 || len(v) > MaxDimension:
		return fmt.Errorf("the dimension is %d, and 1 to %d are possible", len(v), MaxDimension)
	case len(v) != dimension:
		return fmt.Errorf("the dimension is %d, and that of the first one %d", len(v), dimension)
	}
	for _, x := range v {
		if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("it holds %v, which is not a number to compute with", x)
		}
	}
	return nil
}
