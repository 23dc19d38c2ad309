package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/metamcp/metamcp/integration/regular"
)

// The names in a store's folder.
const (
	formatFile  = "FORMAT"
	lockFile    = "LOCK"
	openingFile = "OPENING"
)

const formatWord = "metamcp-catalog"

var dataName = regexp.MustCompile(`^db-([1-9][0-9]{0,8})$`)

// maxDeaths is how many attempts in a row to open a store may end the process
// before the store is given up: badger can end a process on bad files.
const maxDeaths = 3

// folder is a store's folder, locked for this process.
type folder struct {
	path  string
	lock  *os.File
	least int    // a new database gets a higher number; see abandoned
	lost  string // why an earlier database of this process had to be given up
}

// takeFolder makes or checks the folder and locks it. What is not ours, or
// newer than version, is left as it is.
func takeFolder(path string, version int) (*folder, error) {
	f := &folder{path: path}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%w: it is not a folder", ErrForeign)
	}
	if err := f.inspect(version); err != nil {
		return nil, err
	}
	f.inherit()
	for range 3 {
		if f.lock != nil {
			break
		}
		if f.lock, err = lockIn(path); err == nil || !errors.Is(err, errMoved) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	// The one who held the lock until now may have written a newer format.
	if err = f.inspect(version); err == nil {
		err = f.mark(version)
	}
	if err != nil {
		f.release()
		return nil, err
	}
	return f, nil
}

var errMoved = errors.New("the lock file was replaced while it was being locked")

func lockIn(path string) (*os.File, error) {
	name := filepath.Join(path, lockFile)
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not a regular file", ErrForeign, lockFile)
	}
	lock, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = tryLock(lock)
	if err == nil {
		// Whoever deletes the folder takes the lock file along; a lock on a
		// file without a name keeps nobody out.
		held, heldErr := lock.Stat()
		named, namedErr := os.Stat(name)
		if heldErr != nil || namedErr != nil || !os.SameFile(held, named) {
			err = errMoved
		}
	}
	if err != nil {
		_ = unlock(lock) // where it is another's, nothing happens
		return nil, err
	}
	// For people only; a full disk does not matter here.
	_ = lock.Truncate(0)
	_, _ = lock.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return lock, nil
}

func (f *folder) release() {
	if f.lock != nil {
		_ = unlock(f.lock)
	}
}

// inspect refuses a folder that is not ours or is newer, without a change.
func (f *folder) inspect(version int) error {
	found, err := f.format()
	if err != nil {
		return err
	}
	if found > version {
		return fmt.Errorf("%w: its schema version is %d, and %d is understood", ErrNewer, found, version)
	}
	if found != unmarked {
		return nil
	}
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case name == lockFile, name == openingFile, strings.HasPrefix(name, formatFile):
		case dataName.MatchString(name) && e.IsDir() && ourManifest(filepath.Join(f.path, name)):
		default:
			return fmt.Errorf("%w: the folder holds %q and no mark of a store", ErrForeign, name)
		}
	}
	return nil
}

// unmarked is the version of a folder whose FORMAT is missing or unreadable.
const unmarked = -1

// maxFormat is the most that FORMAT holds, in bytes.
const maxFormat = 256

// format returns the version in FORMAT, or unmarked.
func (f *folder) format() (int, error) {
	name := filepath.Join(f.path, formatFile)
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return unmarked, nil
	}
	if err != nil {
		return unmarked, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFormat {
		return unmarked, fmt.Errorf("%w: its %s is not that of a store", ErrForeign, formatFile)
	}
	data, _, err := regular.Read(name, maxFormat)
	if err != nil {
		return unmarked, err
	}
	var version int
	if n, _ := fmt.Sscanf(string(data), formatWord+" %d\n", &version); n != 1 || version < 0 {
		return unmarked, nil
	}
	return version, nil
}

// mark writes FORMAT where it does not say version yet. It is written before
// badger's files change to that version, so that an older program never opens
// what it does not know.
func (f *folder) mark(version int) error {
	if found, err := f.format(); err != nil || found == version {
		return err
	}
	name := filepath.Join(f.path, formatFile)
	if err := regular.Write(name+".new", fmt.Appendf(nil, "%s %d\n", formatWord, version)); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// opening counts an attempt to open the store, and says how many before it did
// not come to an end.
func (f *folder) opening() (deaths int, err error) {
	name := filepath.Join(f.path, openingFile)
	if data, _, err := regular.Read(name, 16); err == nil {
		deaths, _ = strconv.Atoi(strings.TrimSpace(string(data)))
	}
	deaths = min(max(deaths, 0), maxDeaths)
	return deaths, regular.Write(name, strconv.AppendInt(nil, int64(deaths+1), 10))
}

// opened ends what opening began.
func (f *folder) opened() { _ = os.Remove(filepath.Join(f.path, openingFile)) }

// numberOf returns N of a folder db-N, and 0 for any other.
func numberOf(path string) int {
	m := dataName.FindStringSubmatch(filepath.Base(path))
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// data returns the folder of badger's files, "" where there is none, and the
// name for the next one. Older ones, which a rebuild did not get to delete, go.
func (f *folder) data() (current, next string, err error) {
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return "", "", err
	}
	highest := f.least
	for _, e := range entries {
		highest = max(highest, numberOf(e.Name()))
	}
	name := func(n int) string { return filepath.Join(f.path, "db-"+strconv.Itoa(n)) }
	for _, e := range entries {
		if n := numberOf(e.Name()); n > 0 && (n < highest || n == f.least) {
			_ = os.RemoveAll(filepath.Join(f.path, e.Name()))
		}
	}
	if highest == f.least {
		return "", name(highest + 1), nil
	}
	return name(highest), name(highest + 1), nil
}

// ourMagic is in the manifest of every database of this package.
const ourMagic = 0x6d6d

// ourManifest says whether the database in path is one of this package's.
func ourManifest(path string) bool {
	f, err := regular.Open(filepath.Join(path, badger.ManifestFilename), os.O_RDONLY)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	var head [6]byte
	n, _ := f.Read(head[:])
	return n == len(head) && bytes.Equal(head[:], []byte{'B', 'd', 'g', 'r', ourMagic >> 8, ourMagic & 0xff})
}

// filesIn returns the paths of the files in a folder whose names end in ext.
func filesIn(path, ext string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ext {
			names = append(names, filepath.Join(path, e.Name()))
		}
	}
	return names, nil
}
