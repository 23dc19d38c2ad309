package audit

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// What [Options] mean where a member is zero.
const (
	DefaultMaxBytes = 16 << 20
	DefaultMaxAge   = 24 * time.Hour
	DefaultMaxFiles = 30
	DefaultQueue    = 8192
)

// maxQueuedBytes bounds the arguments that wait to be hashed.
const maxQueuedBytes = 64 << 20

// Options shape a log.
type Options struct {
	// Path is the file that is written, an absolute path such as
	// audit.jsonl in stateDir. Where another host holds it, the log takes
	// audit-2.jsonl, audit-3.jsonl and so on beside it.
	Path string
	Name string // of the host
	PID  int    // 0: this process's
	// Started is when the host began, which the start entry tells; zero: now.
	// The log is often opened for its first entry, which is older than now.
	Started time.Time

	MaxBytes int64         // of one file, in bytes; it is exceeded by less than one entry
	MaxAge   time.Duration // of a file's first entry
	MaxFiles int           // kept of a chain, at least 2; older ones are deleted
	Queue    int           // entries that may wait

	// PlainArgs writes arguments as they are, up to 16 KiB; they are hashed
	// otherwise.
	PlainArgs bool
	// Scrub takes secrets out of arguments that are written plain; nil: none
	// are taken out. It is called on the log's goroutine and must not change
	// what it is given.
	Scrub func(json.RawMessage) json.RawMessage
	// ScrubName does so for the names of clients, servers, tools and packages, as
	// Scrub does for arguments.
	ScrubName func(string) string
	// OnProblem is told what is wrong with the log, at most once a minute; nil:
	// nobody is. It is called on the log's goroutine, which waits for it, and
	// must not call Close.
	OnProblem func(error)
	// Now is the clock of entries and of MaxAge; nil: time.Now. It is called
	// from every goroutine that appends.
	Now func() time.Time

	// retry is how long the log waits before it writes again where writing
	// failed; 0: a second. Tests shorten it.
	retry time.Duration
	// syncEvery is the longest that a written entry waits to be made durable;
	// 0: a second.
	syncEvery time.Duration
}

func (o *Options) complete() error {
	if !filepath.IsAbs(o.Path) {
		return errors.New("the audit log needs an absolute path, not " + o.Path)
	}
	if o.PID == 0 {
		o.PID = os.Getpid()
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.MaxAge <= 0 {
		o.MaxAge = DefaultMaxAge
	}
	if o.MaxFiles <= 0 {
		o.MaxFiles = DefaultMaxFiles
	}
	o.MaxFiles = max(o.MaxFiles, 2)
	if o.Queue <= 0 {
		o.Queue = DefaultQueue
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Started.IsZero() {
		o.Started = o.Now()
	}
	if o.syncEvery <= 0 {
		o.syncEvery = time.Second
	}
	if o.retry <= 0 {
		o.retry = time.Second
	}
	return nil
}
