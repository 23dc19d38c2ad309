package childlog

import (
	"container/list"
	"path/filepath"
	"sync"
	"time"

	"github.com/metamcp/metamcp/integration/safename"
)

// The bounds of a log. A file and its predecessors together take at most
// (keep+1) × maxFile bytes per server, and what several hosts that write to it
// add in a second.
const (
	maxFile = 1 << 20
	keep    = 2
	maxLine = 8 << 10
	// margin is what is read of a longer line beyond that, so that a secret of
	// up to this length is seen as a whole before the line is cut.
	margin = 4 << 10
	// rate is what a server may write to its file in a second, and how much
	// of it at once after silence.
	rate = 1 << 20
	// retry is how long a file that failed is left alone.
	retry = 10 * time.Second
	// look is how often a file is looked at that other hosts may turn over as well.
	look = time.Second
	// maxOpen bounds the descriptors of all servers together; who wrote least
	// recently has its file closed until it writes again.
	maxOpen = 64
)

// Options change what a [Folder] does with each line. The zero value is
// ready.
type Options struct {
	// Scrub removes secrets from a line before it is kept anywhere. It may
	// return its argument and must not retain it. Nil: nothing is removed.
	Scrub func(line []byte) []byte
	// NewScrub returns what does so with the lines of one stream of a child, so that it
	// may know those before. Nil: Scrub does.
	NewScrub func() Scrubber
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Scrubber removes secrets from the lines of one stream of a child. It is given all of them in
// their order, on one goroutine, and retains none.
type Scrubber interface {
	// Line removes secrets from a line, without its end, before it is kept
	// anywhere. It may return its argument.
	Line(line []byte) []byte
	// Skip takes whole lines, with their ends, that are kept nowhere.
	Skip(lines []byte)
}

// each is a Scrubber that looks at each line by itself.
type each func([]byte) []byte

func (f each) Line(line []byte) []byte { return f(line) }
func (each) Skip([]byte)               {}

// Folder holds the logs of all servers. It is safe for any goroutine.
type Folder struct {
	dir      string
	scrub    func([]byte) []byte
	newScrub func() Scrubber
	now      func() time.Time

	mu    sync.Mutex
	files map[string]*file
	open  *list.List // of *file, the most recently used in front
}

// NewFolder returns the logs under dir, which is made when the first line is
// written. An empty dir keeps lines in memory only.
func NewFolder(dir string, o Options) *Folder {
	if o.Scrub == nil {
		o.Scrub = func(line []byte) []byte { return line }
	}
	if o.NewScrub == nil {
		o.NewScrub = func() Scrubber { return each(o.Scrub) }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Folder{dir: dir, scrub: o.Scrub, newScrub: o.NewScrub, now: o.Now, files: make(map[string]*file), open: list.New()}
}

// Open returns a log for one instance of a server. Instances of one server
// share its file, where label tells their lines apart. Nothing is opened and
// no buffer is held before the first byte. The caller closes the log.
func (d *Folder) Open(server, label string) *Log {
	l := &Log{folder: d, label: label, scrub: d.newScrub(), other: d.newScrub()}
	if d.dir == "" {
		return l
	}
	path := filepath.Join(d.dir, safename.SafeName(server)+".log")
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.files[path]
	if f == nil {
		f = &file{path: path, folder: d, allowance: rate}
		d.files[path] = f
	}
	f.users++
	l.file = f
	return l
}

// Path returns where the log of a server is, or will be; "" where logs are
// kept in memory only.
func (d *Folder) Path(server string) string {
	if d.dir == "" {
		return ""
	}
	return filepath.Join(d.dir, safename.SafeName(server)+".log")
}

// used moves f to the front of the open files and returns one that must be
// closed to stay within the bound, or nil.
func (d *Folder) used(f *file) (surplus *file) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.place != nil {
		d.open.MoveToFront(f.place)
		return nil
	}
	f.place = d.open.PushFront(f)
	if d.open.Len() <= maxOpen {
		return nil
	}
	last := d.open.Back()
	surplus = last.Value.(*file)
	d.open.Remove(last)
	surplus.place = nil
	return surplus
}

// closed forgets that f is open.
func (d *Folder) closed(f *file) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.place != nil {
		d.open.Remove(f.place)
		f.place = nil
	}
}

// release takes one user from f and reports whether it was the last.
func (d *Folder) release(f *file) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	f.users--
	if f.users > 0 {
		return false
	}
	delete(d.files, f.path)
	return true
}
