package store

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/metamcp/metamcp/integration/diskspace"
)

// Close waits for those who use the store, and ends it within about ten
// seconds. Further calls do nothing. Whatever it returns, nothing that was
// acknowledged is lost; what an error means is only that the database had to be
// left as it stood, because its disk is full, its files are gone, or badger does
// not end. Then a few goroutines of badger's run until the process ends, and the
// folder stays locked for so long, unless its files are gone: this process may
// open it again.
func (s *Store) Close() error {
	s.writer.Lock()
	defer s.writer.Unlock()
	// Counts of hits are worth a write only where it costs nothing.
	s.life.RLock()
	if !s.closed && s.modelsChanged() {
		_ = s.writeHeld(0, func(b batch) error { return s.putModels(b) })
	}
	s.life.RUnlock()

	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if err := s.mayClose(); err != nil {
		if errors.Is(err, errGone) {
			s.folder.abandon(numberOf(s.data), err)
		}
		return fail("close", s.path, err)
	}
	err := closeWithin(s.db, closeLimit)
	if !errors.Is(err, errNoEnd) {
		s.folder.release()
	}
	return fail("close", s.path, err)
}

// mayClose says why badger must not be asked to close: it would write its
// memtables to a disk without room, which ends the process, or try for ever to
// write them to a folder that is gone.
func (s *Store) mayClose() error {
	if err := s.intact(); err != nil {
		return err
	}
	free, err := diskspace.Free(s.path)
	if err != nil {
		return err
	}
	need := int64(4 << 20)
	logs, err := filesIn(s.data, ".mem")
	if err != nil {
		return err
	}
	for _, name := range logs {
		if info, err := os.Stat(name); err == nil {
			need += realSize(info) + realSize(info)/2
		}
	}
	if free < need {
		return fmt.Errorf("%w: %d MiB are free, and closing needs %d MiB", ErrDiskFull, free>>20, need>>20)
	}
	return nil
}

var errNoEnd = errors.New("the database did not close in time")

// closeWithin closes badger and waits for it at most that long.
func closeWithin(db *badger.DB, limit time.Duration) error {
	done := make(chan error, 1)
	go func() { done <- guarded(db.Close) }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return errNoEnd
	}
}
