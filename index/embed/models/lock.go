package models

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/metamcp/metamcp/integration/regular"
)

// lockEvery is how often a lock is tried that another process holds.
const lockEvery = 100 * time.Millisecond

// lock waits until this call alone works at what has the name. Lock files
// stay: to remove one would let two in.
func (f *Folder) lock(ctx context.Context, name string, waiting func()) (unlock func(), err error) {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return nil, err
	}
	file, err := regular.Open(filepath.Join(f.dir, "."+name+".lock"), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(lockEvery)
	defer tick.Stop()
	for first := true; ; first = false {
		err := tryLockFile(file)
		if err == nil {
			return func() { _ = unlockFile(file) }, nil
		}
		if !errors.Is(err, ErrBusy) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", file.Name(), err), file.Close())
		}
		if first && waiting != nil {
			waiting()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), file.Close())
		}
	}
}

// tryLock does not wait.
func (f *Folder) tryLock(name string) (unlock func(), err error) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	unlock, err = f.lock(ended, name, nil)
	if errors.Is(err, context.Canceled) {
		return nil, &Error{Message: fmt.Sprintf("the model %s is being installed just now", name), Hint: "Wait for that, or interrupt it.", Cause: ErrBusy}
	}
	return unlock, err
}
