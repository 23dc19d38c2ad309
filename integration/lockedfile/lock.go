package lockedfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gofrs/flock"

	"github.com/metamcp/metamcp/integration/regular"
)

// Patience is how long a change waits for others, which take milliseconds.
const Patience = 10 * time.Second

// again is the time between two tries to get a lock.
const again = 10 * time.Millisecond

// New is the lock at path, which nobody holds yet. It makes the lock's file, but
// not its folder. The error names the file.
func New(path string) (*flock.Flock, error) {
	// The lock would wait for ever to open a pipe.
	f, err := regular.Open(path, os.O_RDONLY|os.O_CREATE)
	if err == nil {
		err = f.Close()
	}
	switch {
	case errors.Is(err, regular.ErrNotRegular):
		return nil, fmt.Errorf("the lock %s cannot be used: %w; move it away", path, regular.ErrNotRegular)
	case err != nil:
		return nil, fmt.Errorf("the lock cannot be used: %w", err) // it names the path
	}
	return flock.New(path, flock.SetPermissions(0o600)), nil
}

// Lock holds the lock at path until unlock is called, or the process ends. It
// makes the lock's file, but not its folder. Locks of one process exclude each
// other too. The error names the file; it wraps [context.DeadlineExceeded] where
// somebody else held the lock for longer than patience.
func Lock(ctx context.Context, path string, patience time.Duration) (unlock func() error, err error) {
	l, err := New(path)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := l.TryLockContext(waiting, again); err != nil {
		err = errors.Join(err, l.Close())
		if ctx.Err() == nil && waiting.Err() != nil {
			return nil, fmt.Errorf("somebody else has held the lock %s for %v; end the metamcp command that hangs, or try again later: %w", path, patience, err)
		}
		return nil, fmt.Errorf("the lock %s was not got: %w", path, err)
	}
	return l.Close, nil
}
