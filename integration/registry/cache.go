package registry

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/metamcp/metamcp/integration/atomicfile"
	"github.com/metamcp/metamcp/integration/regular"
	"github.com/metamcp/metamcp/integration/wallclock"
)

const (
	cacheVersion  = 1
	maxCacheFile  = 32 << 20 // bytes
	maxCachePages = 256      // the youngest are kept
	maxCacheSize  = 64 << 20 // bytes in memory, about, as page.size has it
)

// cache keeps pages by their address, in memory and in a file that other hosts
// may write as well. Pages in it are never changed.
type cache struct {
	file string
	now  func() time.Time

	mu      sync.Mutex
	loaded  bool
	pages   map[string]*cachedPage
	rests   map[string]time.Time // by base URL: until when a registry wants to be left alone
	changed bool
	problem string // of the file, not yet told
}

type cachedPage struct {
	page    *page
	etag    string
	fetched time.Time
}

// cacheFile is what is on disk.
type cacheFile struct {
	Version int                      `json:"version"`
	Pages   map[string]cacheFilePage `json:"pages"`
	Rests   map[string]time.Time     `json:"leftAloneUntil,omitempty"` // by base URL
}

type cacheFilePage struct {
	Fetched time.Time         `json:"fetched"`
	ETag    string            `json:"etag,omitempty"`
	Next    string            `json:"next,omitempty"`
	Notes   []string          `json:"notes,omitempty"`
	Servers []json.RawMessage `json:"servers"`
}

func newCache(file string, now func() time.Time) *cache {
	return &cache{file: file, now: now, pages: map[string]*cachedPage{}, rests: map[string]time.Time{}}
}

// load reads the file once; the caller holds the lock.
func (c *cache) load() {
	if c.loaded {
		return
	}
	c.loaded = true
	c.merge()
	c.trim()
}

// merge takes from the file what is younger than what is in memory, and the later end of
// each rest. What the file has from a clock that went back since is older than anything.
func (c *cache) merge() {
	if c.file == "" {
		return
	}
	disk, rests, err := readCache(c.file)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			c.problem = "the cache of the registry cannot be read and starts anew: " + err.Error()
		}
		return
	}
	now := c.now()
	for address := range disk {
		if mine := c.pages[address]; mine == nil || wallclock.Compare(mine.fetched, disk[address].fetched, now) < 0 {
			c.pages[address] = disk[address]
		}
	}
	for base, until := range rests {
		if c.resting(until) && until.After(c.rests[base]) {
			c.rests[base] = until
		}
	}
}

func readCache(path string) (pages map[string]*cachedPage, rests map[string]time.Time, err error) {
	data, _, err := regular.Read(path, maxCacheFile)
	switch {
	case errors.Is(err, regular.ErrNotRegular), errors.Is(err, regular.ErrTooLarge):
		return nil, nil, errors.New(path + " is no file of at most 32 MiB")
	case err != nil:
		return nil, nil, err
	}
	var f cacheFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, nil, errors.New(path + " is not JSON of a known shape")
	}
	pages = map[string]*cachedPage{}
	if f.Version != cacheVersion {
		return pages, nil, nil // of another version of metamcp
	}
	for address := range f.Pages {
		kept := f.Pages[address]
		p := &page{next: kept.Next, notes: kept.Notes}
		for _, raw := range kept.Servers {
			// It was checked before it was written, but files can be edited.
			if s, err := decodeRecord(raw); err == nil {
				p.add(s, raw)
			}
		}
		pages[address] = &cachedPage{page: p, etag: kept.ETag, fetched: kept.Fetched}
	}
	return pages, f.Rests, nil
}

// get returns a page and its age, which is negative where the clock went back.
func (c *cache) get(address string, now time.Time) (*cachedPage, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.load()
	kept := c.pages[address]
	if kept == nil {
		return nil, 0
	}
	return kept, now.Sub(kept.fetched)
}

func (c *cache) put(address string, p *page, etag string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.load()
	c.pages[address], c.changed = &cachedPage{page: p, etag: etag, fetched: now}, true
	c.trim()
}

// trim forgets the oldest pages where there are too many, or too much is in them, and
// returns the others, the youngest first.
func (c *cache) trim() (order []string) {
	order = c.youngestFirst()
	size := 0
	for i, address := range order {
		if size += c.pages[address].page.size; i == maxCachePages || i > 0 && size > maxCacheSize {
			for _, old := range order[i:] {
				delete(c.pages, old)
			}
			return order[:i]
		}
	}
	return order
}

// touch says that a page was found unchanged.
func (c *cache) touch(address string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept := c.pages[address]; kept != nil {
		c.pages[address], c.changed = &cachedPage{page: kept.page, etag: kept.etag, fetched: now}, true
	}
}

// rest keeps a registry from being asked until then, by whoever has this file.
func (c *cache) rest(base string, until time.Time) {
	c.mu.Lock()
	c.load()
	maps.DeleteFunc(c.rests, func(_ string, end time.Time) bool { return !c.resting(end) })
	c.rests[base], c.changed = until.UTC(), true
	c.mu.Unlock()
	c.save()
}

// restingUntil is when a registry may be asked again; zero: now.
func (c *cache) restingUntil(base string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.load()
	if until := c.rests[base]; c.resting(until) {
		return until
	}
	return time.Time{}
}

// resting says whether a rest goes on. One that ends later than any that is believed
// does not: somebody edited the file, or the clock went back.
func (c *cache) resting(until time.Time) bool {
	now := c.now()
	return until.After(now) && !until.After(now.Add(maxRest))
}

// all returns every server of that registry that is known, the youngest pages
// first, and the age of the oldest page.
func (c *cache) all(base string, now time.Time) (servers []Server, age time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.load()
	for _, address := range c.youngestFirst() {
		if !strings.HasPrefix(address, base+"/") {
			continue
		}
		servers = append(servers, c.pages[address].page.servers...)
		age = max(age, now.Sub(c.pages[address].fetched), 1)
	}
	return servers, age
}

// find looks for one version of a server.
func (c *cache) find(base, name, version string, now time.Time) (*Server, time.Duration) {
	servers, age := c.all(base, now)
	for i := range servers {
		s := &servers[i]
		if s.Name == name && (s.Version == version || version == "latest" && s.Latest) {
			return s, age
		}
	}
	return nil, 0
}

func (c *cache) youngestFirst() []string {
	order := make([]string, 0, len(c.pages))
	for address := range c.pages {
		order = append(order, address)
	}
	now := c.now()
	slices.SortFunc(order, func(a, b string) int {
		return cmp.Or(wallclock.Compare(c.pages[b].fetched, c.pages[a].fetched, now), cmp.Compare(a, b))
	})
	return order
}

// save writes what changed. A cache that cannot be written is no reason to fail;
// complaint tells of it.
func (c *cache) save() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.changed {
		return
	}
	c.changed = false
	if c.file != "" {
		before := c.problem
		c.merge()
		c.problem = before // it was told when the file was read first
	}
	order := c.trim()
	if c.file == "" {
		return
	}
	if err := c.write(order); err != nil {
		c.problem = "the cache of the registry cannot be written: " + err.Error()
	}
}

// write puts the pages on disk, the youngest first, as far as there is room.
func (c *cache) write(order []string) error {
	f := cacheFile{Version: cacheVersion, Pages: map[string]cacheFilePage{}, Rests: c.rests}
	size := 0
	for _, address := range order {
		kept := c.pages[address]
		one := cacheFilePage{Fetched: kept.fetched.UTC(), ETag: kept.etag, Next: kept.page.next, Notes: kept.page.notes, Servers: []json.RawMessage{}}
		for i := range kept.page.servers {
			raw, err := kept.page.servers[i].encode()
			if err != nil {
				return err
			}
			one.Servers = append(one.Servers, raw)
			size += len(raw) + 1
		}
		const envelope = 1 << 10
		if size += len(address) + envelope; size > maxCacheFile {
			break
		}
		f.Pages[address] = one
	}
	data, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.file), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(c.file, data, 0o600)
}

// complaint is what is wrong with the file, once.
func (c *cache) complaint() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	told := c.problem
	c.problem = ""
	return told
}
