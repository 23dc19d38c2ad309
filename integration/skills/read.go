package skills

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/integration/regular"
)

const (
	// maxFolders bounds how many skills are looked at in one folder.
	maxFolders = 500
	// maxProblems bounds what is said of broken ones.
	maxProblems = 50
	// fileName is what a skill's file is called.
	fileName = "SKILL.md"
)

// Skill is one skill. Its texts are somebody else's: they may hold characters
// that nobody sees.
type Skill struct {
	Name        string
	Description string
	Path        string   // of its SKILL.md, absolute
	Requires    []string // names of servers
}

// Problem is a skill that cannot be used, or a folder that cannot be read.
type Problem struct {
	Path    string
	Message string
}

// String returns the whole problem in one line.
func (p Problem) String() string { return p.Path + ": " + p.Message }

// Folders are the folders in which skills are looked for, those of the project
// before those of the user, and of one name the first one counts. home or cwd
// may be "".
func Folders(home, cwd string) []string {
	var list []string
	for _, base := range []string{cwd, home} {
		if base == "" {
			continue
		}
		for _, dir := range []string{".metamcp", ".claude", ".agents"} {
			if path := filepath.Join(base, dir, "skills"); !slices.Contains(list, path) {
				list = append(list, path)
			}
		}
	}
	return list
}

// Reader reads skills, and reads files again only where they changed. It is
// safe for any goroutine.
type Reader struct {
	folders  []string
	patience time.Duration // for the next file
	longest  time.Duration // for all of them

	reading chan struct{} // holds one token while nobody reads
	looked  atomic.Int64  // how many files were looked at, ever
	mu      sync.Mutex
	last    []Skill
	said    []Problem
	known   map[string]known // by path; of whoever holds the token
}

// known is a file as it was read.
type known struct {
	changed time.Time
	size    int64
	matter  *matter
	err     error
}

// NewReader returns a reader of these folders.
func NewReader(folders []string) *Reader {
	const patience, longest = time.Second, 15 * time.Second
	r := &Reader{folders: folders, patience: patience, longest: longest, reading: make(chan struct{}, 1), known: map[string]known{}}
	r.reading <- struct{}{}
	return r
}

// Read returns the skills that there are, by folder and name, and what is wrong
// with others. A folder that hangs, as one in a network may, is waited for until
// no file was read for a second, or until ctx ends; what was found the last time is
// returned then. Slow ones get 15 seconds in all. One goroutine at most stays with such
// a folder.
func (r *Reader) Read(ctx context.Context) ([]Skill, []Problem) {
	ctx, cancel := context.WithTimeout(ctx, r.longest)
	defer cancel()
	go r.watch(ctx, cancel)
	done := make(chan struct{})
	select {
	case <-r.reading:
		go func() {
			defer func() { r.reading <- struct{}{} }()
			defer close(done)
			skills, problems := r.scan()
			r.mu.Lock()
			defer r.mu.Unlock()
			r.last, r.said = skills, problems
		}()
	case <-ctx.Done():
	}
	var late []Problem
	select {
	case <-done:
	case <-ctx.Done():
		late = []Problem{{strings.Join(r.folders, ", "), "the folders of skills did not answer in time"}}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.last), append(late, r.said...)
}

// watch calls stuck once no file was looked at for as long as the patience lasts.
func (r *Reader) watch(ctx context.Context, stuck func()) {
	tick := time.NewTicker(r.patience)
	defer tick.Stop()
	for last := r.looked.Load(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := r.looked.Load()
		if now == last {
			stuck()
			return
		}
		last = now
	}
}

// scan looks at all folders.
func (r *Reader) scan() (skills []Skill, problems []Problem) {
	report := func(path, message string) {
		if len(problems) < maxProblems {
			problems = append(problems, Problem{path, message})
		}
	}
	seen := map[string]bool{}
	files := map[string]known{}
	for _, dir := range r.folders {
		names, more, err := list(dir)
		switch {
		case err != nil:
			report(dir, "it cannot be read: "+cause(err).Error())
		case more:
			report(dir, fmt.Sprintf("it holds more than %d folders; only so many are looked at", maxFolders))
		}
		for _, name := range names {
			path := filepath.Join(dir, name, fileName)
			k, there := r.file(path, name)
			if !there {
				continue
			}
			files[path] = k
			if k.err != nil {
				report(path, k.err.Error())
				continue
			}
			if !seen[k.matter.name] {
				seen[k.matter.name] = true
				skills = append(skills, Skill{k.matter.name, k.matter.description, path, k.matter.requires})
			}
		}
	}
	r.known = files // what is gone is forgotten
	return skills, problems
}

// list returns the names in a folder, sorted; a folder that is not there has
// none.
func list(dir string) (names []string, more bool, err error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = f.Close() }() // it was only read
	names, err = f.Readdirnames(maxFolders + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	slices.Sort(names)
	return names[:min(len(names), maxFolders)], len(names) > maxFolders, err
}

// file reads one SKILL.md; there is false where there is none.
func (r *Reader) file(path, folder string) (k known, there bool) {
	defer r.looked.Add(1)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || isNotFolder(err):
		return k, false
	case err != nil:
		return known{err: cause(err)}, true
	case !info.Mode().IsRegular():
		return known{err: errors.New("it is no regular file")}, true
	}
	if old, ok := r.known[path]; ok && old.changed.Equal(info.ModTime()) && old.size == info.Size() {
		return old, true
	}
	k = known{changed: info.ModTime(), size: info.Size()}
	text, err := readStart(path)
	if err != nil {
		k.err = cause(err)
		return k, true
	}
	k.matter, k.err = parse(text, folder)
	return k, true
}

// isNotFolder says that something beside the skills is a file.
func isNotFolder(err error) bool {
	var p *fs.PathError
	return errors.As(err, &p) && notFolder(p.Err)
}

func readStart(path string) ([]byte, error) {
	f, err := regular.Open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(f, maxMatter))
}

// cause is a file error without the path, which is named already.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
