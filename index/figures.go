package index

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/metamcp/metamcp/index/store"
	"github.com/metamcp/metamcp/integration/atomicfile"
	"github.com/metamcp/metamcp/integration/regular"
)

// StoreFigures are what the store holds, at one moment.
type StoreFigures struct {
	At            time.Time      `json:"at"`
	SchemaVersion int            `json:"schemaVersion"`
	Servers       int            `json:"servers"` // with a listing
	ListingBytes  int64          `json:"listingBytes"`
	DiskBytes     int64          `json:"diskBytes"` // of the folder, as it is on disk
	Damaged       int64          `json:"damaged,omitempty"`
	Rebuilt       string         `json:"rebuilt,omitempty"` // why it was made anew
	Models        []ModelFigures `json:"models"`
}

// ModelFigures are what the store holds of one embedder's model.
type ModelFigures struct {
	Model     string    `json:"model"`
	Dimension int       `json:"dimension"`
	Vectors   int       `json:"vectors"`
	Bytes     int64     `json:"bytes"`
	LastUse   time.Time `json:"lastUse"` // to the hour
	// Hits and Misses count the tools whose vector was found, and not found,
	// in the store.
	Hits   uint64 `json:"hits"`
	Misses uint64 `json:"misses"`
}

// Figures reads the figures of an open store.
func Figures(st *store.Store) (*StoreFigures, error) {
	s, err := st.Stats()
	if err != nil {
		return nil, err
	}
	f := &StoreFigures{
		At: time.Now().UTC().Truncate(time.Second), SchemaVersion: s.SchemaVersion, Servers: s.Listings, ListingBytes: s.ListingBytes,
		DiskBytes: s.DiskBytes, Damaged: s.Damaged, Rebuilt: s.Rebuilt, Models: []ModelFigures{},
	}
	for _, m := range s.Models {
		f.Models = append(f.Models, ModelFigures{m.Model, m.Dimension, m.Vectors, m.Bytes, m.LastUse, m.Hits, m.Misses})
	}
	return f, nil
}

// figuresFile is where a host writes the figures down for those who cannot
// open the store meanwhile.
func figuresFile(storePath string) string { return storePath + "-figures.json" }

func writeFigures(storePath string, st *store.Store) error {
	f, err := Figures(st)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return atomicfile.Write(figuresFile(storePath), raw, 0o600)
}

// maxFigures is the most that is read of them, in bytes.
const maxFigures = 1 << 20

// ReadFigures returns what a host wrote down of the store that it holds; nil
// where it did not yet.
func ReadFigures(storePath string) (*StoreFigures, error) {
	raw, _, err := regular.Read(figuresFile(storePath), maxFigures)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, err
	}
	f := &StoreFigures{}
	if err := json.Unmarshal(raw, f); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", figuresFile(storePath), err)
	}
	return f, nil
}
