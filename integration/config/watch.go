package config

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// debounce is how long the files must be quiet before they are read, so
	// that an editor's several steps count as one change.
	debounce = 150 * time.Millisecond
	// longestDebounce bounds that in a folder that is never quiet.
	longestDebounce = 600 * time.Millisecond
	// pollInterval finds what the system does not report, as on network file
	// systems; together with the debounce it stays below two seconds.
	pollInterval = 1500 * time.Millisecond
	// closeLimit is how long Close waits for a file system that does not
	// answer; nothing can interrupt it.
	closeLimit = time.Second
	// ringPause is the time after which a keyring that could not be used is asked
	// again. It doubles up to longestRingPause, since a locked one may ask its user
	// each time.
	ringPause        = 30 * time.Second
	longestRingPause = time.Hour
)

// Watcher reads the files of a configuration again when they change.
type Watcher struct {
	src     *resolvedSources
	changed func(*Config, error)
	inForce func() *Config // may be nil, or return nil
	poll    time.Duration

	paths      []string // what is read
	candidates []string // what is waited for while there is nothing to read
	lock       string   // the lock file of provisioned servers, "" while none is known
	fixed      map[string][]byte
	secrets    string // the file of the store; "": no secret is asked for
	content    [32]byte
	known      known
	stamps     []stamp
	again      bool              // something could not be read: the stamps do not tell when it can be
	ringAt     time.Time         // when the keyring is asked again; zero: it needs not be
	ringPause  time.Duration     // that led there
	notify     *fsnotify.Watcher // nil where the system has none
	read       fileReader

	stop chan struct{}
	done chan struct{}

	mu      sync.Mutex
	stopped bool
	calling chan struct{} // closed when the call of changed that is under way returns; nil: none is
}

// Watch starts to watch the files that current was read from, or, where none
// was found, those that would have been read; once one of them could be loaded it
// stays with that. The lock file of provisioned servers is watched in any case.
// sources must be those of the [Load] that returned current; its environment and
// overlay are used for every later load.
//
// changed is called within two seconds of a change of content, with a new
// configuration, or with the error of a load that failed: the caller then
// keeps what it has, and the Watcher goes on. A file that is gone, or that has
// become a pipe, is such an error; what could not be read is tried again until it
// can be, as a keyring is. Changed runs on the Watcher's own goroutine, one call at a time, and
// must not call [Watcher.Close]. A change between Load and Watch is not lost.
//
// After a Load that failed current is nil; the failure is then reported once
// more at once, and the mended file afterwards.
//
// What a load cannot read stays what it is in the configuration in force, which
// inForce returns: it may come from a [Reload] that the Watcher does not know of. nil:
// there is none but the Watcher's.
func Watch(sources Sources, current *Config, inForce func() *Config, changed func(*Config, error)) *Watcher {
	return watch(sources, current, inForce, changed, pollInterval, fsnotify.NewWatcher)
}

func watch(sources Sources, current *Config, inForce func() *Config, changed func(*Config, error), poll time.Duration, newNotify func() (*fsnotify.Watcher, error)) *Watcher {
	w := newWatcher(sources, current, changed, poll)
	w.inForce = inForce
	// Without notifications the poll still finds every change in time.
	if n, err := newNotify(); err == nil {
		w.notify = n
	}
	w.watchFolders()
	go w.run()
	return w
}

func newWatcher(sources Sources, current *Config, changed func(*Config, error), poll time.Duration) *Watcher {
	w := &Watcher{
		src: sources.resolved(), changed: changed, poll: poll, read: readFile,
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	if current != nil {
		w.paths, w.candidates, w.fixed = current.Files, current.candidates, current.fixed
		w.loaded(current)
	} else if w.paths, w.candidates = w.src.choose(); len(w.candidates) > 0 {
		w.paths = nil // none was named, and what was found is not usable
	}
	return w
}

// Stop ends the watching without waiting: no call of changed begins any more,
// one that is under way may go on. It may be called more than once and from any
// goroutine.
func (w *Watcher) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.stopped = true
		close(w.stop)
	}
}

// Close ends the watching and waits for a call of changed that is under way;
// none follows. It may be called more than once and from any goroutine but the
// one that runs changed.
//
// It waits until ctx ends at most: a call of changed that hangs is left behind.
// A file system that hangs, such as that of an NFS server that is gone, cannot
// be interrupted: Close waits a second for it and then leaves the goroutine
// behind, which ends by itself, and calls nobody, once the file system answers.
func (w *Watcher) Close(ctx context.Context) {
	w.Stop()
	w.mu.Lock()
	calling := w.calling
	w.mu.Unlock()
	if calling != nil {
		select {
		case <-calling:
		case <-ctx.Done():
			return
		}
	}
	limit := time.NewTimer(closeLimit)
	defer limit.Stop()
	select {
	case <-w.done:
	case <-limit.C:
	case <-ctx.Done():
	}
}

// call calls changed unless Stop came first.
func (w *Watcher) call(cfg *Config, err error) {
	w.mu.Lock()
	if w.stopped {
		w.mu.Unlock()
		return
	}
	calling := make(chan struct{})
	w.calling = calling
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.calling = nil
		w.mu.Unlock()
		close(calling)
	}()
	w.changed(cfg, err)
}

func (w *Watcher) run() {
	defer close(w.done)
	var events chan fsnotify.Event
	var failures chan error
	if w.notify != nil {
		events, failures = w.notify.Events, w.notify.Errors
		defer func() { _ = w.notify.Close() }() // nothing can be done about it any more
	}
	ticker := time.NewTicker(w.poll)
	defer ticker.Stop()
	quiet := time.NewTimer(0) // what changed between Load and Watch
	defer quiet.Stop()
	var first time.Time // of the events that quiet waits for
	forced := true      // one of them names a file of ours
	for {
		select {
		case <-w.stop:
			return
		case event, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			now := time.Now()
			if first.IsZero() {
				first = now
			}
			forced = forced || w.concerns(event.Name)
			quiet.Reset(max(0, min(debounce, longestDebounce-now.Sub(first))))
		case _, ok := <-failures:
			if !ok {
				failures = nil
				continue
			}
			// Events were lost: look for ourselves.
			forced = true
			quiet.Reset(debounce)
		case <-quiet.C:
			w.check(forced)
			first, forced = time.Time{}, false
		case <-ticker.C:
			w.watchFolders()
			if first.IsZero() {
				w.check(false)
			}
		}
	}
}

// watched are the files whose content or appearance matters.
func (w *Watcher) watched() []string {
	files := w.paths
	if len(files) == 0 {
		files = w.candidates
	}
	files = slices.Clone(files)
	for _, more := range []string{w.lock, w.secrets} {
		if more != "" {
			files = append(files, more)
		}
	}
	return files
}

// concerns says whether an event's name is one of the files, or a file that
// one of them is a link to. Anything else in the folder, such as the ..data
// link of Kubernetes, is told by the stamps.
func (w *Watcher) concerns(name string) bool {
	name = filepath.Clean(name)
	return slices.ContainsFunc(w.stamps, func(s stamp) bool { return s.path == name || s.target == name })
}

// watchFolders watches the folders of the files and of what they link to; a
// folder that is not there yet is tried again at each poll.
func (w *Watcher) watchFolders() {
	if w.notify == nil {
		return
	}
	want := map[string]bool{}
	for _, p := range w.watched() {
		want[filepath.Dir(p)] = true
		if target, err := filepath.EvalSymlinks(p); err == nil {
			want[filepath.Dir(target)] = true
		}
	}
	have := map[string]bool{}
	for _, f := range w.notify.WatchList() {
		have[f] = true
	}
	for f := range want {
		// A folder that was deleted is dropped by fsnotify itself.
		if !have[f] {
			_ = w.notify.Add(f) // the poll stands in where this fails
		}
	}
	for f := range have {
		if !want[f] {
			_ = w.notify.Remove(f)
		}
	}
}

// check reads the files if they may have changed and reports if they have.
func (w *Watcher) check(forced bool) {
	begun := begin()
	stamps := makeStamps(w.watched())
	askRing := !w.ringAt.IsZero() && !time.Now().Before(w.ringAt)
	if !forced && !w.again && !askRing && slices.EqualFunc(stamps, w.stamps, stamp.equal) && !slices.ContainsFunc(stamps, stamp.fresh) {
		return
	}
	w.stamps = stamps
	paths, candidates := w.paths, w.candidates
	if len(paths) == 0 {
		paths, candidates = w.src.choose()
	}
	contents, before := readAll(paths, w.fixed, w.read), w.knownNow()
	before.contents = slices.Concat(readLock(w.lock), readSecrets(w.secrets))
	w.again = slices.ContainsFunc(slices.Concat(contents, before.contents), content.unread)
	hash := hashContents(contents, before.contents)
	same := hash == w.content
	if same && !askRing {
		return
	}
	w.content = hash // also of what is not usable, which is reported once
	cfg, err := w.src.build(begun, contents, candidates, before)
	if err == nil {
		w.paths, w.candidates = paths, candidates // not before: a usable file may come in another place
		w.loaded(cfg)
	} else if askRing {
		w.ringLater()
	}
	w.watchFolders()
	if same && (err != nil || cfg.ringFailed && maps.Equal(cfg.secrets, before.secrets)) {
		return // the keyring says no more than it did
	}
	w.call(cfg, err)
}

// knownNow is what is in force, which others may have loaded.
func (w *Watcher) knownNow() known {
	if w.inForce != nil {
		if c := w.inForce(); c != nil {
			return c.known()
		}
	}
	return w.known
}

// loaded keeps what the next check needs of a load. The lock file and the store may
// be others than those of the one before.
func (w *Watcher) loaded(cfg *Config) {
	w.content, w.lock, w.secrets, w.known = cfg.content, cfg.lock, cfg.secretFile, cfg.known()
	w.again = w.again || cfg.unread
	if cfg.ringFailed {
		w.ringLater()
	} else {
		w.ringAt, w.ringPause = time.Time{}, 0
	}
}

// ringLater has the keyring asked again when its time has come, unless that is set
// already.
func (w *Watcher) ringLater() {
	if now := time.Now(); !now.Before(w.ringAt) {
		w.ringPause = min(max(2*w.ringPause, ringPause), longestRingPause)
		w.ringAt = now.Add(w.ringPause)
	}
}

// stamp is what a file looks like from outside.
type stamp struct {
	path, target string // target: with every link resolved, "" where that fails
	info         fs.FileInfo
}

func makeStamps(paths []string) []stamp {
	stamps := make([]stamp, len(paths))
	for i, p := range paths {
		stamps[i].path = p
		if target, err := filepath.EvalSymlinks(p); err == nil {
			stamps[i].target = target
		}
		if info, err := os.Stat(p); err == nil {
			stamps[i].info = info
		}
	}
	return stamps
}

func (s stamp) equal(o stamp) bool {
	if s.path != o.path || s.target != o.target || (s.info == nil) != (o.info == nil) {
		return false
	}
	return s.info == nil || s.info.Size() == o.info.Size() && s.info.ModTime().Equal(o.info.ModTime()) &&
		s.info.Mode() == o.info.Mode() && os.SameFile(s.info, o.info)
}

// fresh says that the file was written so lately that a further write could
// have left the same time and size.
func (s stamp) fresh() bool {
	const coarsest = 3 * time.Second // FAT counts in twos
	return s.info != nil && time.Since(s.info.ModTime()).Abs() < coarsest
}
