package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"

	"github.com/metamcp/metamcp/integration/regular"
)

// errDamaged is wrapped by what verify finds wrong.
var errDamaged = errors.New("damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errDamaged}, args...)...)
}

var walName = regexp.MustCompile(`^[0-9]{5,9}\.mem$`)

// verify reads every file of a database before badger does, because badger may
// end the process on a bad one. It removes what cannot hold any data and what
// badger makes anew, and cuts a write-ahead log behind its last sound entry, as
// badger would. An error that wraps errDamaged says that the database must be
// given up; any other that it could not be read.
func verify(path string, log func(level, msg string)) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		return nil
	}
	tables, err := verifyManifest(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(path, e.Name())
		switch ext := filepath.Ext(e.Name()); {
		case e.Name() == badger.KeyRegistryFileName:
			err = verifyKeyRegistry(name)
		case e.Name() == "DISCARD", ext == ".vlog":
			// No value of ours is in the value log: all are below the threshold.
			err = os.RemoveAll(name)
		case walName.MatchString(e.Name()):
			err = verifyWAL(name, log)
		case ext == ".mem", strings.HasPrefix(e.Name(), "MANIFEST-"):
			err = os.RemoveAll(name)
		case ext == ".sst":
			// Those that the manifest does not name are left over from a
			// compaction that a crash cut short.
			if id, ok := tableID(e.Name()); !ok || !slices.Contains(tables, id) {
				err = os.RemoveAll(name)
			}
		}
		if err != nil {
			return err
		}
	}
	for _, id := range tables {
		if err := verifyTable(table.NewFilename(id, path)); err != nil {
			return err
		}
	}
	return nil
}

// tableID reads the number in a table's name; names that badger would not write
// have none.
func tableID(name string) (uint64, bool) {
	if strings.HasPrefix(name, "-") || strings.HasPrefix(name, "+") {
		return 0, false
	}
	id, ok := table.ParseFileID(name)
	return id, ok && table.IDToFilename(id) == name
}

// verifyManifest returns the numbers of the tables that make up the database.
func verifyManifest(path string) ([]uint64, error) {
	f, err := regular.Open(filepath.Join(path, badger.ManifestFilename), os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return nil, damaged("its manifest is missing")
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, damaged("its manifest is not a file")
	}
	var manifest badger.Manifest
	opt := badger.DefaultOptions(path).WithLogger(nil)
	if err := guarded(func() (err error) {
		manifest, _, err = badger.ReplayManifestFile(f, ourMagic, opt)
		return err
	}); err != nil {
		return nil, damaged("its manifest: %v", err)
	}
	tables := make([]uint64, 0, len(manifest.Tables))
	for id, t := range manifest.Tables {
		if int(t.Level) >= opt.MaxLevels || t.KeyID != 0 || t.Compression != options.None {
			return nil, damaged("its manifest describes a table that is not of this program")
		}
		tables = append(tables, id)
	}
	return tables, nil
}

// verifyKeyRegistry removes a registry that is not the one of a database
// without encryption: badger makes it again.
func verifyKeyRegistry(name string) error {
	const size = 16 + len("Hello Badger")
	data, err := readFile(name, size+1)
	if err == nil && len(data) == size && string(data[16:]) == "Hello Badger" {
		return nil
	}
	return os.RemoveAll(name)
}

// readFile reads a regular file of at most limit bytes.
func readFile(name string, limit int) ([]byte, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, damaged("%s is not a file", filepath.Base(name))
	}
	if info.Size() > int64(limit) {
		return nil, damaged("%s is larger than any that badger writes here", filepath.Base(name))
	}
	data, _, err := regular.Read(name, int64(limit))
	return data, err
}
