package pins

import (
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"
)

// watchEvery is how often the folder is looked at; one look is one stat where
// nothing has changed. With the reading it stays below two seconds.
const watchEvery = time.Second

// Watcher tells which files have changed.
type Watcher struct {
	store   *Store
	changed func(files []string)
	every   time.Duration

	folder fs.FileInfo
	looked time.Time
	files  map[string]stamp

	stop chan struct{}
	done chan struct{}
	once sync.Once
}

type stamp struct {
	size int64
	time time.Time
	info fs.FileInfo
}

// Watch calls changed, on a goroutine of its own, within two seconds after files
// of servers were made, changed or deleted; the caller's own changes count, too.
// [File] is the name of a server's file. Files that are there already are not
// told of.
func (s *Store) Watch(changed func(files []string)) *Watcher { return s.watch(changed, watchEvery) }

func (s *Store) watch(changed func(files []string), every time.Duration) *Watcher {
	w := &Watcher{store: s, changed: changed, every: every, stop: make(chan struct{}), done: make(chan struct{})}
	w.look() // before anybody can change something that would then be missed
	go w.run()
	return w
}

// Close ends the watching and waits until a call of changed has returned. It
// may be called on nil.
func (w *Watcher) Close() {
	if w == nil {
		return
	}
	w.once.Do(func() { close(w.stop) })
	<-w.done
}

func (w *Watcher) run() {
	defer close(w.done)
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
		}
		if files := w.look(); len(files) > 0 {
			w.changed(files)
		}
	}
}

// look returns the files that are not what they were at the last look.
// Files are replaced by renaming, which changes the folder; so where the folder
// is as it was, and has been for longer than its clock is coarse, nothing is read.
func (w *Watcher) look() (changed []string) {
	const coarsest = 3 * time.Second // FAT counts in twos
	folder, err := os.Stat(w.store.dir)
	if err != nil {
		folder = nil
	}
	now := time.Now()
	if folder != nil && w.folder != nil && folder.ModTime().Equal(w.folder.ModTime()) && os.SameFile(folder, w.folder) &&
		w.looked.Sub(folder.ModTime()) > coarsest {
		return nil
	}
	if folder == nil && w.folder == nil && w.files != nil {
		return nil
	}
	files := map[string]stamp{}
	entries, _ := os.ReadDir(w.store.dir) // a folder that is not there has no files
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if info, err := e.Info(); err == nil {
			files[e.Name()] = stamp{info.Size(), info.ModTime(), info}
		}
	}
	old := w.files
	w.folder, w.looked, w.files = folder, now, files
	if old == nil {
		return nil
	}
	for name, s := range files {
		if before, ok := old[name]; !ok || before.size != s.size || !before.time.Equal(s.time) || !os.SameFile(before.info, s.info) {
			changed = append(changed, name)
		}
	}
	for name := range old {
		if _, ok := files[name]; !ok {
			changed = append(changed, name)
		}
	}
	return changed
}
