package provisioned

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/metamcp/metamcp/integration/lockedfile"
)

const (
	stagingPrefix = ".new-"
	ownerSuffix   = ".lock"
)

// Claim is a folder that this process is at work on. Nobody sweeps it away
// while the claim, and with it the process, lives.
type Claim struct {
	l      *Lock
	folder string
	owner  *flock.Flock
	placed bool
}

// Claim makes an empty staging folder below servers/. folder is what it is to be
// called in the end; it must not be there yet.
func (l *Lock) Claim(folder string) (*Claim, error) {
	if err := checkFolder(folder); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(l.Servers(), 0o700); err != nil {
		return nil, err
	}
	c, err := l.own(folder)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(c.staging(), 0o700); err != nil {
		return nil, errors.Join(err, c.Release())
	}
	return c, nil
}

// own claims a folder as it is, whether it is there or not. servers/ is.
func (l *Lock) own(folder string) (*Claim, error) {
	owner, err := lockedfile.New(filepath.Join(l.Servers(), folder+ownerSuffix))
	if err != nil {
		return nil, err
	}
	held, err := owner.TryLock()
	if err != nil || !held {
		return nil, errors.Join(fmt.Errorf("the folder %s %w", folder, errOwned), err, owner.Close())
	}
	return &Claim{l: l, folder: folder, owner: owner}, nil
}

var errOwned = errors.New("belongs to another process")

// Await waits until nobody is at work on the folder of a server any more, and says
// whether the server is in the file then: whoever put it there may have undone that.
// Where it has no folder nobody waits.
func (l *Lock) Await(ctx context.Context, s *Locked) (there bool, err error) {
	const again = 50 * time.Millisecond
	look := time.NewTicker(again)
	defer look.Stop()
	for s.Folder != "" {
		c, err := l.own(s.Folder)
		if err == nil {
			err = c.Release()
		}
		if err == nil {
			break
		}
		if !errors.Is(err, errOwned) {
			return false, err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	servers, err := l.List()
	return slices.ContainsFunc(servers, func(o Locked) bool { return o.Name == s.Name && o.Folder == s.Folder }), err
}

func (c *Claim) staging() string { return filepath.Join(c.l.Servers(), stagingPrefix+c.folder) }

// Folder is its name below servers/.
func (c *Claim) Folder() string { return c.folder }

// Dir is where the folder is now.
func (c *Claim) Dir() string {
	if c.placed {
		return c.Final()
	}
	return c.staging()
}

// Final is where it will be after [Claim.Place].
func (c *Claim) Final() string { return filepath.Join(c.l.Servers(), c.folder) }

// Place moves the folder to where it stays, in one step.
func (c *Claim) Place() error {
	if err := os.Rename(c.staging(), c.Final()); err != nil {
		return err
	}
	c.placed = true
	return nil
}

// Discard deletes the folder and ends the claim.
func (c *Claim) Discard() error { return errors.Join(RemoveAll(c.Dir()), c.Release()) }

// Release ends the claim: the folder stays where it is, for the lock file or a
// sweep. Calling it again does nothing.
func (c *Claim) Release() error {
	if c.owner == nil {
		return nil
	}
	path, owner := c.owner.Path(), c.owner
	c.owner = nil
	// Removed while it is held, so that nobody else holds what is removed;
	// Windows removes nothing that is open.
	err := os.Remove(path)
	if closeErr := owner.Close(); closeErr != nil {
		return closeErr
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return os.Remove(path)
	}
	return nil
}

// Sweep deletes folders below servers/ that the lock file does not name, that no
// process owns and that were not touched for that long, or by a clock that went back
// by as much since; it returns their names.
// Where the lock file is broken only staging folders are deleted. Removed servers
// that were kept long enough go, too.
func (l *Lock) Sweep(ctx context.Context, age time.Duration) ([]string, error) {
	entries, err := os.ReadDir(l.Servers())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var swept []string
	errs := []error{l.forgetOld(time.Time{})}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return swept, err
		}
		folder := strings.TrimSuffix(strings.TrimPrefix(e.Name(), stagingPrefix), ownerSuffix)
		info, err := e.Info()
		if err != nil || checkFolder(folder) != nil || time.Since(info.ModTime()).Abs() < age {
			continue
		}
		gone, err := l.sweep(folder, e)
		if gone {
			swept = append(swept, e.Name())
		}
		errs = append(errs, err)
	}
	return swept, errors.Join(errs...)
}

// sweep deletes what one entry of the folder is, unless somebody needs it.
func (l *Lock) sweep(folder string, e fs.DirEntry) (gone bool, err error) {
	owner, err := lockedfile.New(filepath.Join(l.Servers(), folder+ownerSuffix))
	if err != nil {
		return false, err
	}
	held, err := owner.TryLock()
	if err != nil || !held {
		return false, errors.Join(err, owner.Close())
	}
	c := &Claim{l: l, folder: folder, owner: owner}
	defer func() { err = errors.Join(err, c.Release()) }()
	if !e.IsDir() {
		return false, nil // the file of an owner that is gone goes with the claim
	}
	if !strings.HasPrefix(e.Name(), stagingPrefix) {
		// Looked at after the claim: whoever keeps a server holds that until then.
		servers, err := l.List()
		if err != nil || slices.ContainsFunc(servers, func(s Locked) bool { return s.Folder == folder }) {
			return false, nil // of a broken lock file nobody knows what it needs
		}
	}
	if err := RemoveAll(filepath.Join(l.Servers(), e.Name())); err != nil {
		return false, err
	}
	return true, nil
}
