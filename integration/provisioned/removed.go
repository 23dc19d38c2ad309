package provisioned

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/metamcp/metamcp/integration/atomicfile"
	"github.com/metamcp/metamcp/integration/lockedfile"
	"github.com/metamcp/metamcp/integration/regular"
	"github.com/metamcp/metamcp/integration/wallclock"
)

// What was removed is kept, so that it can come back with what it wrote.
const (
	// KeptFor is how long, and KeptMost how many of them: the oldest goes first.
	// What one command removed together can come back together, so nothing of what
	// the last one removed goes for their number.
	KeptFor  = 30 * 24 * time.Hour
	KeptMost = 20
)

const (
	removedDir    = "removed" // in the state folder
	removedRecord = "server.json"
	removedFiles  = "files" // where its folder was moved to
)

// Removed is a server that was taken out of the lock file and is kept.
type Removed struct {
	Name   string    `json:"name"`
	Server Locked    `json:"server"`
	At     time.Time `json:"at"`
	// Began is when the command began that removed it, the same for all that it
	// removed.
	Began time.Time `json:"began"`

	dir string
}

// Dir is the folder in which it is kept.
func (r *Removed) Dir() string { return r.dir }

// Files is where its files are kept; "" where it had none.
func (r *Removed) Files() string {
	if r.Server.Folder == "" {
		return ""
	}
	return filepath.Join(r.dir, removedFiles)
}

// SetAside takes a server out of the file and moves its folder to where
// [Lock.Restore] finds it. Hosts that run it end it within two seconds. The
// error wraps [ErrNotProvisioned] where there is no such server; after any error
// the server is there as before.
func (l *Lock) SetAside(ctx context.Context, name string, began time.Time) (Removed, error) {
	var gone Removed
	moved := false
	err := l.edit(ctx, func(servers []Locked) ([]Locked, error) {
		i := slices.IndexFunc(servers, func(s Locked) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("%w: %q", ErrNotProvisioned, name)
		}
		now := time.Now().UTC()
		gone = Removed{
			Name: name, Server: servers[i], At: now, Began: began.UTC(),
			dir: filepath.Join(l.stateDir, removedDir, now.Format("20060102T150405.000000000Z")+"-"+name),
		}
		text, err := json.MarshalIndent(&gone, "", "  ")
		if err != nil {
			return nil, err
		}
		if err := os.MkdirAll(gone.dir, 0o700); err != nil {
			return nil, err
		}
		if err := atomicfile.Write(filepath.Join(gone.dir, removedRecord), append(text, '\n'), 0o600); err != nil {
			return nil, err
		}
		// In this order a crash leaves a server that says that its files are gone,
		// and never files that nobody knows of.
		if dir := l.Dir(&gone.Server); dir != "" {
			switch err := os.Rename(dir, gone.Files()); {
			case err == nil:
				moved = true
			case !errors.Is(err, fs.ErrNotExist):
				return nil, fmt.Errorf("its folder could not be moved, so it stays: %w", err)
			}
		}
		return slices.Delete(servers, i, i+1), nil
	})
	if err != nil {
		if moved {
			err = errors.Join(err, os.Rename(gone.Files(), l.Dir(&gone.Server)))
		}
		if gone.dir != "" {
			// Only the record is in it; a folder that could not be moved back stays.
			err = errors.Join(err, os.Remove(filepath.Join(gone.dir, removedRecord)), os.Remove(gone.dir))
		}
		return Removed{}, err
	}
	return gone, l.forgetOld(gone.Began)
}

// Removed returns what is kept, the newest first. What was removed before the clock
// went back, so that it is dated after now, comes last. What cannot be read is left
// out, and stays.
func (l *Lock) Removed() ([]Removed, error) {
	entries, err := os.ReadDir(filepath.Join(l.stateDir, removedDir))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	var all []Removed
	for _, e := range entries {
		dir := filepath.Join(l.stateDir, removedDir, e.Name())
		text, err := lockedfile.ReadTrusted(filepath.Join(dir, removedRecord), maxFile)
		var r Removed
		if err != nil || json.Unmarshal(text, &r) != nil {
			continue
		}
		if r.Server.Name = r.Name; r.Server.check() != nil {
			continue
		}
		r.dir = dir
		all = append(all, r)
	}
	now := time.Now()
	slices.SortStableFunc(all, func(a, b Removed) int { return wallclock.Compare(b.At, a.At, now) })
	return all, nil
}

// Restore puts a removed server back, with its files; where its name is taken
// meanwhile it gets the next free one. Where the very same server is there again
// it stays where it is kept, and the error says where that is.
func (l *Lock) Restore(ctx context.Context, r *Removed, taken func(name string) bool) (Locked, error) {
	s := r.Server
	moved := false
	var claim *Claim
	err := l.edit(ctx, func(servers []Locked) ([]Locked, error) {
		if i := slices.IndexFunc(servers, func(o Locked) bool { return l.same(&o, &s) || s.Folder != "" && o.Folder == s.Folder }); i >= 0 {
			return nil, fmt.Errorf("the same server is there again as %q; what %q had is in %s until %s",
				servers[i].Name, r.Name, r.dir, r.At.Add(KeptFor).Format(time.DateOnly))
		}
		s.Name = freeName(s.Name, func(name string) bool {
			return slices.ContainsFunc(servers, func(o Locked) bool { return o.Name == name }) || taken != nil && taken(name)
		})
		if dir := l.Dir(&s); dir != "" {
			if err := os.MkdirAll(l.Servers(), 0o700); err != nil {
				return nil, err
			}
			// Until the lock file names it, it looks to a sweep like what an
			// installation left behind, were it not young and claimed.
			var err error
			if claim, err = l.own(s.Folder); err != nil {
				return nil, err
			}
			now := time.Now()
			if err = os.Chtimes(r.Files(), now, now); err == nil {
				err = os.Rename(r.Files(), dir)
			}
			if err != nil {
				return nil, fmt.Errorf("its files could not be moved back: %w", err)
			}
			moved = true
		}
		return append(servers, s), nil
	})
	if err != nil && moved {
		err = errors.Join(err, os.Rename(l.Dir(&s), r.Files()))
	}
	if claim != nil {
		// The file of a claim that cannot be given back is swept away later.
		_ = claim.Release()
	}
	if err != nil {
		return Locked{}, err
	}
	return s, RemoveAll(r.dir)
}

// forgetOld deletes what was kept long enough, but nothing of the command that began
// then; zero: there is none.
func (l *Lock) forgetOld(began time.Time) error {
	all, err := l.Removed()
	if err != nil {
		return err
	}
	var errs []error
	for i := range all {
		if !began.IsZero() && all[i].Began.Equal(began) {
			continue // wherever it comes among the others
		}
		tooMany := i >= KeptMost && !all[i].Began.Equal(all[0].Began)
		if tooMany || time.Since(all[i].At) > KeptFor {
			errs = append(errs, RemoveAll(all[i].dir))
		}
	}
	return errors.Join(errs...)
}

// A Difference is a file of a server that is not as it was installed.
type Difference struct {
	Path string `json:"path"` // relative to its folder, with slashes
	What string `json:"what"` // "new" or "changed"
}

// Differences are the files that came to a server's folder after it was
// installed, or changed: what it, or somebody, wrote. It reads every file.
func (l *Lock) Differences(ctx context.Context, s *Locked) ([]Difference, error) {
	dir := l.Dir(s)
	if dir == "" {
		return nil, nil
	}
	have, err := scan(ctx, dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	text, _, err := regular.Read(filepath.Join(dir, listName), maxList)
	if err != nil {
		return nil, err
	}
	want, err := readList(text)
	if err != nil {
		return nil, fmt.Errorf("%s %w", filepath.Join(dir, listName), err)
	}
	var list []Difference
	for i := range have {
		at, known := slices.BinarySearchFunc(want, have[i].path, func(n node, path string) int { return strings.Compare(n.path, path) })
		switch {
		case !known:
			list = append(list, Difference{have[i].path, "new"})
		case want[at].hash != have[i].hash:
			list = append(list, Difference{have[i].path, "changed"})
		}
	}
	return list, nil
}
