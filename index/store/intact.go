package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// errGone says that somebody took badger's files away, or cut them.
var errGone = errors.New("its files were changed while it was open")

// intact says ErrBroken, and errGone, when badger's folder is not the one that
// was opened, or a mapped file in it is shorter than it was: badger's own
// goroutines would touch what is not there any more, which ends the process.
// It is called by the writer, since only what follows a write makes them touch
// anything.
func (s *Store) intact() error {
	info, err := os.Stat(s.data)
	if err != nil || !os.SameFile(info, s.info) {
		return fmt.Errorf("%w: %w: the folder %s was deleted or replaced", ErrBroken, errGone, filepath.Base(s.data))
	}
	entries, err := os.ReadDir(s.data)
	if err != nil {
		return err
	}
	sizes := make(map[string]int64, len(entries))
	for _, e := range entries {
		name := e.Name()
		if ext := filepath.Ext(name); ext != ".sst" && ext != ".mem" && name != "DISCARD" {
			continue // the others are read as files, or end in what may be cut
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // compacted meanwhile
		}
		if err != nil {
			return err
		}
		if before := s.mapped[name]; info.Size() < before {
			if info.Size() == 0 && goes(filepath.Join(s.data, name)) {
				continue
			}
			return fmt.Errorf("%w: %w: %s has %d bytes of %d", ErrBroken, errGone, name, info.Size(), before)
		}
		sizes[name] = info.Size()
	}
	s.mapped = sizes
	return nil
}

// goes waits whether an empty file is one that badger is deleting: it empties it
// first.
func goes(path string) bool {
	const patience, look = 2 * time.Second, 5 * time.Millisecond
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(look) {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() > 0 {
			return true
		}
	}
	return false
}

// abandoned remembers the databases of this process that could not be closed
// because their files are gone. Their goroutines go on until the process ends,
// so no later database may have the name of one of them.
var abandoned = struct {
	sync.Mutex
	folders map[string]left
}{folders: map[string]left{}}

// left is what an abandoned database left behind.
type left struct {
	lock   *os.File // nil: taken over
	number int      // of its folder, db-N
	why    string
}

// abandon leaves the database as it is and its lock to the next Open of the
// same folder in this process.
func (f *folder) abandon(number int, why error) {
	abandoned.Lock()
	defer abandoned.Unlock()
	abandoned.folders[f.path] = left{lock: f.lock, number: number, why: why.Error()}
}

// inherit takes over what an abandoned database of this process left: the lock,
// where its file still has its name, and the number that its folder had.
func (f *folder) inherit() {
	abandoned.Lock()
	defer abandoned.Unlock()
	was, ok := abandoned.folders[f.path]
	if !ok {
		return
	}
	f.least = was.number
	if was.lock == nil {
		return
	}
	f.lost = was.why
	if held, err := was.lock.Stat(); err == nil {
		if named, err := os.Stat(filepath.Join(f.path, lockFile)); err == nil && os.SameFile(held, named) {
			f.lock = was.lock
		}
	}
	if f.lock == nil {
		_ = unlock(was.lock)
	}
	was.lock = nil
	abandoned.folders[f.path] = was
}
