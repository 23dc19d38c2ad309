package index

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/metamcp/metamcp/integration/atomicfile"
	"github.com/metamcp/metamcp/integration/regular"
	"github.com/metamcp/metamcp/messages"
)

// maxCacheFile is the largest schema.json that is read or written, in bytes.
const maxCacheFile = 64 << 20

// cacheFile is the name of the file in a server's folder.
const cacheFile = "schema.json"

const (
	// unusedFor is how long a listing of which nobody knows whose it is, and the
	// vectors of a model other than the one in force, stay after their last use.
	// They may be those of another configuration with the same folder, of whose
	// hosts none runs at the moment, and vectors may have cost money.
	unusedFor = 30 * 24 * time.Hour
	// usedEvery is how old the time of a file gets at most while it is in use.
	usedEvery = 24 * time.Hour
)

// A Cache keeps what each server listed last, in one file per server, so that
// tools are known before any child runs. It is never authoritative, and
// deleting its folder is safe.
//
// It has no state but its folder. Methods may be called from any goroutine;
// writers of one server's file should be one at a time, though the worst that
// can come of two is that the older listing stays.
type Cache struct {
	root string
	safe func(string) string
}

// NewCache returns the cache in stateDir/cache. safe turns a server's name
// into one that is safe as a folder name, without collisions. Nothing is
// touched on disk before the first Save.
func NewCache(stateDir string, safe func(string) string) *Cache {
	return &Cache{root: filepath.Join(stateDir, "cache"), safe: safe}
}

// A SkippedFile says which server's file could not be used, and why.
type SkippedFile struct {
	Server string
	Err    error
}

// relisted is how much newer a listing may be than the same one on disk: after a
// start the time there says whether it is too old.
const relisted = 10 * time.Minute

// Save writes the toolset's file, atomically, where it is not there yet, where
// anything but the time of the listing changed, or where that did by much. It reports whether it wrote.
// Every definition keeps its exact bytes.
func (c *Cache) Save(ts *messages.Toolset) (wrote bool, err error) {
	path, err := c.path(ts.Server)
	if err != nil {
		return false, err
	}
	data, err := encodeToolset(ts)
	if err != nil {
		return false, fmt.Errorf("schema cache of %q: %w", ts.Server, err)
	}
	if len(data) > maxCacheFile {
		return false, fmt.Errorf("schema cache of %q: the listing is over 64 MiB and is not kept", ts.Server)
	}
	if old, _, err := regular.Read(path, maxCacheFile); err == nil && sameBody(old, data) {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return false, fmt.Errorf("schema cache of %q: %w", ts.Server, err)
	}
	if err := atomicfile.Write(path, data, 0o600); err != nil {
		return false, fmt.Errorf("schema cache of %q: %w", ts.Server, err)
	}
	return true, nil
}

// Load reads one server's file, which is in use then. The error is fs.ErrNotExist where there is
// none; any other says why the file cannot be used, and that the server's next
// start will replace it.
func (c *Cache) Load(server string) (*messages.Toolset, error) {
	path, err := c.path(server)
	if err != nil {
		return nil, err
	}
	data, _, err := regular.Read(path, maxCacheFile)
	if err != nil {
		return nil, fmt.Errorf("schema cache of %q: %w", server, err)
	}
	ts, err := decodeToolset(server, data)
	if err != nil {
		return nil, fmt.Errorf("schema cache of %q is ignored until the server's next start: %w", server, err)
	}
	markUsed(path)
	return ts, nil
}

// LoadAll reads the files of many servers, at most parallel at a time (1 or
// less: one). The toolsets come in the order of names; a server without a file
// is in neither result. It returns when every file has been read.
func (c *Cache) LoadAll(names []string, parallel int) ([]*messages.Toolset, []SkippedFile) {
	sets := make([]*messages.Toolset, len(names))
	errs := make([]error, len(names))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(max(parallel, 1), len(names)) {
		workers.Go(func() {
			for i := range next {
				sets[i], errs[i] = c.Load(names[i])
			}
		})
	}
	for i := range names {
		next <- i
	}
	close(next)
	workers.Wait()
	var skipped []SkippedFile
	loaded := sets[:0]
	for i, ts := range sets {
		switch {
		case ts != nil:
			loaded = append(loaded, ts)
		case !errors.Is(errs[i], fs.ErrNotExist):
			skipped = append(skipped, SkippedFile{names[i], errs[i]})
		}
	}
	return loaded, skipped
}

// Prune deletes the files of servers that are gone, and those that nobody has used
// for a month: of other servers, and such as name none or are not where their
// server's file belongs. The files of used servers stay, and are marked as used. It
// returns how many it deleted and the first thing that went wrong; it goes on after
// that. Nothing but schema.json files and the folders that they leave empty is ever
// deleted.
func (c *Cache) Prune(used, gone map[string]bool) (removed int, err error) {
	folders, err := os.ReadDir(c.root)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	for _, folder := range folders {
		if !folder.IsDir() {
			continue
		}
		path := filepath.Join(c.root, folder.Name(), cacheFile)
		info, statErr := os.Lstat(path)
		if statErr != nil || !info.Mode().IsRegular() {
			continue
		}
		server, ok := namedIn(path)
		ok = ok && c.safe(server) == folder.Name()
		if ok && used[server] {
			markUsed(path)
			continue
		}
		if (!ok || !gone[server]) && time.Since(info.ModTime()) < unusedFor {
			continue
		}
		if removeErr := removeCached(path); removeErr != nil {
			err = cmp.Or(err, removeErr)
			continue
		}
		removed++
	}
	if err != nil {
		err = fmt.Errorf("schema cache: %w", err)
	}
	return removed, err
}

// markUsed makes the time of a file tell that it is in use. It costs a write a day,
// and where it fails the file is as old as it looks.
func markUsed(path string) {
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > usedEvery {
		now := time.Now()
		_ = os.Chtimes(path, now, now)
	}
}

// has reports whether there is a file of the server.
func (c *Cache) has(server string) bool {
	path, err := c.path(server)
	if err != nil {
		return false
	}
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

// path returns the place of a server's file, and refuses a folder name that is
// not one plain element.
func (c *Cache) path(server string) (string, error) {
	folder := c.safe(server)
	if folder == "" || folder != filepath.Base(folder) || !filepath.IsLocal(folder) || folder == "." {
		return "", fmt.Errorf("schema cache: the name %q is not safe for a folder", server)
	}
	return filepath.Join(c.root, folder, cacheFile), nil
}

func removeCached(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Other files may live there; a folder that is not empty stays.
	_ = os.Remove(filepath.Dir(path))
	return nil
}
