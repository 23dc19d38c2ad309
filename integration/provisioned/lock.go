package provisioned

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/metamcp/metamcp/integration/atomicfile"
	"github.com/metamcp/metamcp/integration/lockedfile"
	"github.com/metamcp/metamcp/integration/safename"
)

// FileName is the name of the lock file in the state folder.
const FileName = "provisioned.json"

// serversDir is where the files of the servers are, in the state folder.
const serversDir = "servers"

// dataDir is where the data of some servers is, in the state folder.
const dataDir = "data"

// Lock is the lock file of one state folder. It holds nothing open; it is safe
// for any goroutine, and several processes may share the folder.
type Lock struct{ stateDir string }

// Open returns the lock file of a state folder; nothing is read yet.
func Open(stateDir string) *Lock { return &Lock{stateDir} }

// Path is where the file is.
func (l *Lock) Path() string { return filepath.Join(l.stateDir, FileName) }

// Servers is the folder that holds the folders of the servers.
func (l *Lock) Servers() string { return filepath.Join(l.stateDir, serversDir) }

// Dir is the folder of a server, "" of one that has none.
func (l *Lock) Dir(s *Locked) string {
	if s.Folder == "" {
		return ""
	}
	return filepath.Join(l.Servers(), s.Folder)
}

// DataDir is where a server keeps its data that metamcp told where to keep it:
// outside of its folder, so that it outlives any version of it.
func (l *Lock) DataDir(src *Source) string {
	return filepath.Join(l.stateDir, dataDir, safename.SafeName(src.Kind+"-"+src.Package))
}

// A BrokenError says that the lock file cannot be used. It was left as it is.
type BrokenError struct {
	Path  string
	Cause error
}

// Error returns what is wrong and what to do.
func (e *BrokenError) Error() string {
	return fmt.Sprintf("the lock file %s cannot be used, so nothing that it names is started, and it was left as it is: %v; "+
		"mend it, or move it away and provision the servers again", e.Path, e.Cause)
}

// Unwrap returns the cause.
func (e *BrokenError) Unwrap() error { return e.Cause }

// List returns the servers in the order in which they came; none where there is
// no file. The error is a *[BrokenError].
func (l *Lock) List() ([]Locked, error) {
	text, err := l.Read()
	if err != nil || text == nil {
		return nil, err
	}
	servers, err := Parse(text)
	if err != nil {
		return nil, &BrokenError{l.Path(), err}
	}
	return servers, nil
}

// Read returns the text of the file, nil where there is none. The error is a
// *[BrokenError].
func (l *Lock) Read() ([]byte, error) {
	text, err := lockedfile.ReadTrusted(l.Path(), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &BrokenError{l.Path(), err}
	}
	return text, nil
}

// edit changes the file while no other process does. change returns nil where
// nothing is to be written.
func (l *Lock) edit(ctx context.Context, change func(servers []Locked) ([]Locked, error)) (err error) {
	path := l.Path()
	// A link stays a link: what it points to is replaced.
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	unlock, err := lockedfile.Lock(ctx, path+".lock", lockedfile.Patience)
	if err != nil {
		return fmt.Errorf("the lock file %s was not changed: %w", path, err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	servers, err := l.List()
	if err != nil {
		return err
	}
	next, err := change(servers)
	if err != nil || next == nil {
		return err
	}
	text, err := format(next)
	if err != nil {
		return err
	}
	// What cannot be read again would take every other server with it.
	if _, err := Parse(text); err != nil {
		return fmt.Errorf("the lock file was left as it is, since the change would break it: %w", err)
	}
	return atomicfile.Write(path, text, 0o600)
}

// Keep puts a server into the file; from then on it counts as installed. Where
// its name is there already, or taken says so, it gets the next free one:
// name-2, name-3 and so on. Where the same package in the same version with the
// same entry is there already, nothing is written, that one is returned, and
// fresh is false: the caller discards its own. The moment is filled in.
func (l *Lock) Keep(ctx context.Context, s Locked, taken func(name string) bool) (kept Locked, fresh bool, err error) {
	if s.InstalledAt.IsZero() {
		s.InstalledAt = time.Now().UTC().Truncate(time.Second)
	}
	if err := s.check(); err != nil {
		return Locked{}, false, fmt.Errorf("the server %q cannot be kept: %w", s.Name, err)
	}
	err = l.edit(ctx, func(servers []Locked) ([]Locked, error) {
		for i := range servers {
			if l.same(&servers[i], &s) {
				kept, fresh = servers[i], false
				return nil, nil
			}
		}
		s.Name = freeName(s.Name, func(name string) bool {
			return slices.ContainsFunc(servers, func(o Locked) bool { return o.Name == name }) || taken != nil && taken(name)
		})
		kept, fresh = s, true
		return append(servers, s), nil
	})
	if err != nil {
		return Locked{}, false, err
	}
	return kept, fresh, nil
}

func freeName(want string, taken func(string) bool) string {
	name := want
	for n := 2; taken(name); n++ {
		suffix := "-" + strconv.Itoa(n)
		name = strings.TrimRight(want[:min(len(want), maxName-len(suffix))], ".") + suffix
	}
	return name
}

// same says whether two servers do the same out of two folders. Their
// dependencies may differ by what was published meanwhile.
func (l *Lock) same(a, b *Locked) bool {
	return a.Source == b.Source && reflect.DeepEqual(l.bare(a), l.bare(b))
}

// bare is an entry without the place of its folder.
func (l *Lock) bare(s *Locked) Entry {
	e := s.Entry
	if s.Folder == "" {
		return e
	}
	dir := l.Dir(s)
	e.Command, e.Cwd = strings.ReplaceAll(e.Command, dir, ""), strings.ReplaceAll(e.Cwd, dir, "")
	e.Args, e.Env = slices.Clone(e.Args), maps.Clone(e.Env)
	for i := range e.Args {
		e.Args[i] = strings.ReplaceAll(e.Args[i], dir, "")
	}
	for name, value := range e.Env {
		e.Env[name] = strings.ReplaceAll(value, dir, "")
	}
	return e
}

// ErrNotProvisioned is what Remove fails with where there is no such server.
var ErrNotProvisioned = errors.New("no server of that name was provisioned")

// Remove takes a server out of the file, then deletes its folder, and that of its
// data as [Lock.DropData] does. Hosts that run it end it within two seconds. The error wraps [ErrNotProvisioned] where
// there is no such server; after another one that names the folder, the server
// is out of the file, and the folder is deleted by a later [Lock.Sweep].
func (l *Lock) Remove(ctx context.Context, name string) (Locked, error) {
	var gone Locked
	err := l.edit(ctx, func(servers []Locked) ([]Locked, error) {
		i := slices.IndexFunc(servers, func(s Locked) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("%w: %q", ErrNotProvisioned, name)
		}
		gone = servers[i]
		next := slices.Delete(servers, i, i+1)
		if next == nil {
			next = []Locked{}
		}
		return next, nil
	})
	if err != nil {
		return Locked{}, err
	}
	l.DropData(ctx, &gone.Source)
	if dir := l.Dir(&gone); dir != "" {
		if err := RemoveAll(dir); err != nil {
			return gone, fmt.Errorf("%s is no server any more, but its folder could not be deleted: %w", name, err)
		}
	}
	return gone, nil
}

// DropData deletes the folder of a server's data where nothing is in it and no
// server has it, neither one of the file nor one that can be restored. One that stays
// for another reason harms nobody.
func (l *Lock) DropData(ctx context.Context, src *Source) {
	dir := l.DataDir(src)
	if _, err := os.Stat(dir); err != nil {
		return
	}
	_ = l.edit(ctx, func(servers []Locked) ([]Locked, error) {
		removed, err := l.Removed()
		used := slices.ContainsFunc(servers, func(s Locked) bool { return l.DataDir(&s.Source) == dir }) ||
			slices.ContainsFunc(removed, func(r Removed) bool { return l.DataDir(&r.Server.Source) == dir })
		if err == nil && !used {
			err = os.Remove(dir) // which takes no folder that has something in it
		}
		return nil, err
	})
}

// RemoveAll is os.RemoveAll that also deletes folders without permission to
// write, as some packages have them.
func RemoveAll(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) //nolint:gosec // G302: a folder, and the owner's alone
		}
		return nil // whatever stays is told by the second try
	})
	return os.RemoveAll(dir)
}
