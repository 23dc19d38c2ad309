package store

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"io"

	"github.com/dgraph-io/badger/v4"
)

// ExportOptions choose what Export writes.
type ExportOptions struct {
	Vectors bool // the numbers of each vector, too
}

// exportLine is one line of an export.
type exportLine struct {
	Kind      string    `json:"kind"` // "listing" or "vector"
	Server    string    `json:"server,omitempty"`
	Bytes     int       `json:"bytes,omitempty"` // of a listing
	Model     string    `json:"model,omitempty"`
	Hash      string    `json:"hash,omitempty"` // SHA-256 of the embedded text, in hex
	Dimension int       `json:"dimension,omitempty"`
	Vector    []float32 `json:"vector,omitempty"`
}

// Export writes the store as lines of JSON: each listing with its length, then
// each vector with its model and hash. An error of w is returned as it is, and w
// must not call the store. What is damaged is left out.
//
// All is read from one moment of the store. May be called from any goroutine.
func (s *Store) Export(w io.Writer, o ExportOptions) error {
	var stopped error
	out := bufio.NewWriter(w)
	lines := json.NewEncoder(out)
	err := s.read("export", func(g *guard, txn *badger.Txn) error {
		write := func(line exportLine) error {
			stopped = g.call(func() error { return lines.Encode(line) })
			return stopped
		}
		if err := s.eachListing(txn, toolsPrefix, func(l *storedListing) error {
			if !l.sound {
				return nil
			}
			return write(exportLine{Kind: "listing", Server: l.server, Bytes: len(l.raw)})
		}); err != nil {
			return err
		}
		for _, name := range s.modelNames() {
			if err := s.exportModel(txn, name, o, write); err != nil {
				return err
			}
		}
		return nil
	})
	if stopped == nil && err == nil {
		stopped = out.Flush()
	}
	if stopped != nil {
		return stopped
	}
	return err
}

func (s *Store) exportModel(txn *badger.Txn, name string, o ExportOptions, write func(exportLine) error) error {
	v := make([]float32, s.dimension(name))
	it := txn.NewIterator(badger.IteratorOptions{Prefix: under(vectorPrefix, name)})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		key := it.Item().Key()
		if err := it.Item().Value(func(record []byte) error {
			hash, ok := hashIn(key)
			if !ok || !decodeVector(key, record, v) {
				s.fault(key)
				return nil
			}
			line := exportLine{Kind: "vector", Model: name, Hash: hex.EncodeToString(hash[:]), Dimension: len(v)}
			if o.Vectors {
				line.Vector = v
			}
			return write(line)
		}); err != nil {
			return err
		}
	}
	return nil
}
