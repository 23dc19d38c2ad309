package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// patience is how long a test waits for what must happen; the two seconds of
// the promise are too short for a machine under load.
const patience = 20 * time.Second

type change struct {
	cfg *Config
	err error
}

// watching is a Watcher under test and what it said.
type watching struct {
	t       *testing.T
	changes chan change
	watcher *Watcher
}

func noNotify() (*fsnotify.Watcher, error) { return nil, errors.New("no notifications here") }

func startWatching(t *testing.T, src Sources, current *Config, poll time.Duration, notify func() (*fsnotify.Watcher, error)) *watching {
	t.Helper()
	w := &watching{t: t, changes: make(chan change, 100)}
	w.watcher = watch(src, current, nil, func(c *Config, err error) { w.changes <- change{c, err} }, poll, notify)
	t.Cleanup(func() { w.watcher.Close(context.Background()) })
	return w
}

// until waits for a change that is as wanted; those before it may be steps on
// the way, such as a file that is half written.
func (w *watching) until(what string, wanted func(change) bool) change {
	w.t.Helper()
	deadline := time.After(patience)
	var last change
	for {
		select {
		case last = <-w.changes:
			if wanted(last) {
				return last
			}
		case <-deadline:
			w.t.Fatalf("%s was not seen; the last change was %+v", what, last)
		}
	}
}

func (w *watching) server(name string) *Config {
	w.t.Helper()
	return w.until("server "+name, func(c change) bool { return c.err == nil && c.cfg.Server(name) != nil }).cfg
}

func (w *watching) failure(part string) {
	w.t.Helper()
	c := w.until("the failure", func(c change) bool { return c.err != nil })
	contains(w.t, c.err.Error(), part)
}

func oneServer(name string) string {
	return fmt.Sprintf(`{"mcpServers": {%q: {"command": "x"}}}`, name)
}

// must fails the test where a step of its own goes wrong.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// modes are the two ways by which a change is found; each must do alone.
var modes = []struct {
	name   string
	poll   time.Duration
	notify func() (*fsnotify.Watcher, error)
}{
	{"notifications", time.Hour, fsnotify.NewWatcher},
	{"poll", 20 * time.Millisecond, noNotify},
}

func TestWatch(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			w := newWorld(t)
			path := w.file("c.json", oneServer("a"))
			src := w.sources(path)
			cfg, err := Load(src)
			must(t, err)
			n := startWatching(t, src, cfg, mode.poll, mode.notify)

			w.file("c.json", oneServer("written"))
			n.server("written")

			must(t, os.Rename(w.file("new.json", oneServer("renamed")), path))
			n.server("renamed")

			must(t, os.Remove(path))
			n.failure("does not exist")
			w.file("c.json", oneServer("recreated"))
			n.server("recreated")

			w.file("c.json", "{ broken")
			n.failure("c.json:1:3")
			w.file("c.json", oneServer("mended"))
			n.server("mended")

			// The same size within the same moment.
			w.file("c.json", oneServer("nendem"))
			n.server("nendem")
		})
	}
}

// TestWatchLinks swaps links as Kubernetes does: c.json -> ..data/c.json,
// ..data -> a folder that is replaced.
func TestWatchLinks(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			w := newWorld(t)
			w.file("one/c.json", oneServer("one"))
			w.file("two/c.json", oneServer("two"))
			must(t, os.Symlink("one", filepath.Join(w.cwd, "..data")))
			must(t, os.Symlink(filepath.Join("..data", "c.json"), filepath.Join(w.cwd, "c.json")))
			src := w.sources("c.json")
			cfg, err := Load(src)
			must(t, err)
			n := startWatching(t, src, cfg, mode.poll, mode.notify)

			must(t, os.Symlink("two", filepath.Join(w.cwd, "..tmp")))
			must(t, os.Rename(filepath.Join(w.cwd, "..tmp"), filepath.Join(w.cwd, "..data")))
			n.server("two")

			// The target is watched where it is now.
			w.file("two/c.json", oneServer("inside"))
			n.server("inside")
		})
	}
}

func TestWatchFindsTheFirstFile(t *testing.T) {
	w := newWorld(t)
	src := w.sources()
	cfg, err := Load(src)
	must(t, err)
	// The folder of the file is not there yet, so that the poll has to find it.
	n := startWatching(t, src, cfg, 50*time.Millisecond, fsnotify.NewWatcher)
	must(t, os.MkdirAll(filepath.Join(w.home, ".metamcp"), 0o755))
	path := filepath.Join(w.home, ".metamcp", "mcp.json")
	must(t, os.WriteFile(path, []byte(oneServer("first")), 0o600))
	if got := n.server("first"); len(got.Files) != 1 || got.Files[0] != path {
		t.Errorf("files are %v", got.Files)
	}
	// From now on it stays with this file.
	w.file(".mcp.json", oneServer("stranger"))
	must(t, os.WriteFile(path, []byte(oneServer("second")), 0o600))
	n.until("second", func(c change) bool {
		if c.cfg != nil && c.cfg.Server("stranger") != nil {
			t.Error("another file was taken")
		}
		return c.cfg != nil && c.cfg.Server("second") != nil
	})
}

// A first file that cannot be loaded is told of once, and one that can be is taken
// wherever it comes.
func TestWatchDoesNotStayWithAFirstFileThatIsBroken(t *testing.T) {
	for _, start := range []string{"none", "broken"} {
		t.Run(start, func(t *testing.T) {
			w := newWorld(t)
			src := w.sources()
			cfg, err := Load(src)
			must(t, err)
			first := w.file(".mcp.json", "{ broken")
			if start == "broken" {
				failing(t, src)
				cfg = nil
			}
			n := startWatching(t, src, cfg, 20*time.Millisecond, noNotify)
			n.failure(".mcp.json:1:3")

			path := filepath.Join(w.home, ".metamcp", "mcp.json")
			must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must(t, os.WriteFile(path, []byte(oneServer("moved")), 0o600))
			must(t, os.Remove(first))
			n.until("the moved file", func(c change) bool {
				if c.err != nil {
					t.Errorf("another failure was reported: %v", c.err)
				}
				return c.err == nil && c.cfg.Server("moved") != nil
			})
			// From now on it stays with this file.
			w.file(".mcp.json", oneServer("stranger"))
			must(t, os.WriteFile(path, []byte(oneServer("second")), 0o600))
			if got := n.server("second"); len(got.Files) != 1 || got.Files[0] != path {
				t.Errorf("files are %v", got.Files)
			}
		})
	}
}

func TestWatchSeesWhatChangedBefore(t *testing.T) {
	w := newWorld(t)
	path := w.file("c.json", oneServer("a"))
	src := w.sources(path)
	cfg, err := Load(src)
	must(t, err)
	w.file("c.json", oneServer("between"))
	startWatching(t, src, cfg, time.Hour, noNotify).server("between")
}

func TestWatchAfterAFailedLoad(t *testing.T) {
	w := newWorld(t)
	src := w.sources(w.file("c.json", "{"))
	contains(t, failing(t, src).Message, "ends too early")
	n := startWatching(t, src, nil, time.Hour, fsnotify.NewWatcher)
	n.failure("ends too early")
	w.file("c.json", oneServer("mended"))
	n.server("mended")
}

func TestWatchIsSilentWhereNothingChanged(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			w := newWorld(t)
			path := w.file("c.json", oneServer("a"))
			src := w.sources(path)
			cfg, err := Load(src)
			must(t, err)
			n := startWatching(t, src, cfg, mode.poll, mode.notify)
			now := time.Now().Add(-time.Hour)
			must(t, os.Chtimes(path, now, now))
			must(t, os.Rename(w.file("copy.json", oneServer("a")), path))
			for i := range 20 {
				w.file(fmt.Sprintf("other%d", i), "x")
			}
			// Whatever those caused would come before this.
			w.file("c.json", oneServer("b"))
			n.until("b", func(c change) bool {
				if c.err == nil && c.cfg.Server("b") == nil {
					t.Errorf("a change without a change: %+v", c.cfg.Servers[0])
				}
				return c.err == nil
			})
		})
	}
}

// TestWatchTriesAgainWhatCouldNotBeRead has a failure that passes without a trace
// in what a file looks like from outside.
func TestWatchTriesAgainWhatCouldNotBeRead(t *testing.T) {
	w := newWorld(t)
	path := w.file("c.json", oneServer("a"))
	long := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(path, long, long))
	src := w.sources(path)
	cfg, err := Load(src)
	must(t, err)
	var told []change
	watcher := newWatcher(src, cfg, func(c *Config, err error) { told = append(told, change{c, err}) }, time.Hour)
	reads := 0
	watcher.read = func(path string) ([]byte, bool, error) {
		if reads++; reads <= 2 {
			return nil, true, &fs.PathError{Op: "open", Path: path, Err: errors.New("too many open files")}
		}
		return readFile(path)
	}
	for range 4 {
		watcher.check(false)
	}
	if reads != 3 || len(told) != 2 || told[0].err == nil || told[1].err != nil || told[1].cfg.Server("a") == nil {
		t.Errorf("%d readings told %+v", reads, told)
	}
}

func TestWatchClose(t *testing.T) {
	w := newWorld(t)
	path := w.file("c.json", oneServer("a"))
	src := w.sources(path)
	cfg, err := Load(src)
	must(t, err)
	entered, leave := make(chan struct{}), make(chan struct{})
	watcher := Watch(src, cfg, nil, func(*Config, error) { close(entered); <-leave })
	// One step, so that there is one change.
	must(t, os.Rename(w.file("new.json", oneServer("b")), path))
	select {
	case <-entered:
	case <-time.After(patience):
		t.Fatal("the change was not seen")
	}
	closed := make(chan struct{})
	go func() { watcher.Close(context.Background()); close(closed) }()
	select {
	case <-closed:
		t.Error("Close did not wait for the call")
	default:
	}
	close(leave)
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatal("Close does not end")
	}
	watcher.Close(context.Background())
}

// TestWatchCloseWhileTheFileSystemHangs has a read that does not return, as one
// of a server that is gone: neither Stop nor Close waits for it, and what it
// brings too late is told nobody.
func TestWatchCloseWhileTheFileSystemHangs(t *testing.T) {
	w := newWorld(t)
	src := w.sources(w.file("c.json", oneServer("a")))
	cfg, err := Load(src)
	must(t, err)
	reading, answer := make(chan struct{}), make(chan struct{})
	watcher := newWatcher(src, cfg, func(c *Config, err error) { t.Errorf("changed was called: %v, %v", c, err) }, time.Hour)
	watcher.read = func(string) ([]byte, bool, error) {
		close(reading)
		<-answer
		return []byte(oneServer("late")), true, nil
	}
	go watcher.run()
	closed := make(chan struct{})
	go func() {
		<-reading
		watcher.Stop()
		watcher.Close(context.Background())
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Error("Close waits for the file system")
	}
	close(answer)
	select {
	case <-watcher.done:
	case <-time.After(patience):
		t.Fatal("the goroutine is left when the file system answers")
	}
}
