//go:build unix

package config

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestWatchKeepsPipes has a file that can be read only once beside a plain one.
func TestWatchKeepsPipes(t *testing.T) {
	w := newWorld(t)
	r, p, err := os.Pipe()
	must(t, err)
	defer func() { _ = r.Close() }()
	_, err = p.WriteString(oneServer("piped"))
	must(t, err)
	must(t, p.Close())
	pipe := fmt.Sprintf("/dev/fd/%d", r.Fd())
	path := w.file("c.json", oneServer("a"))
	src := w.sources(pipe, path)
	cfg, err := Load(src)
	must(t, err)
	n := startWatching(t, src, cfg, 20*time.Millisecond, noNotify)
	w.file("c.json", oneServer("b"))
	if got := n.server("b"); got.Server("piped") == nil {
		t.Error("the pipe's server is gone")
	}
}

// TestWatchPipeInThePlaceOfAFile: a pipe without a writer takes the place of a
// file and goes again, and the Watcher hangs on neither.
func TestWatchPipeInThePlaceOfAFile(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			w := newWorld(t)
			path := w.file("c.json", oneServer("a"))
			src := w.sources(path)
			cfg, err := Load(src)
			must(t, err)
			n := startWatching(t, src, cfg, mode.poll, mode.notify)
			must(t, os.Remove(path))
			must(t, syscall.Mkfifo(path, 0o600))
			n.failureOf("c.json cannot be read: it is no regular file")
			if _, err := Reload(src, cfg); err == nil {
				t.Error("Reload takes a pipe for a file")
			}
			must(t, os.Rename(w.file("new.json", oneServer("mended")), path))
			n.server("mended")
			must(t, os.Remove(path))
			must(t, syscall.Mkfifo(path, 0o600))
			n.failureOf("it is no regular file")
			n.watcher.Close(context.Background())
		})
	}
}

// failureOf waits for a failure that says this; others may be steps on the way.
func (w *watching) failureOf(part string) {
	w.t.Helper()
	w.until(part, func(c change) bool { return c.err != nil && strings.Contains(c.err.Error(), part) })
}

// TestNamedPipe: a pipe that was named is read at the start, when its writer
// comes, and never again; one that is only found is refused.
func TestNamedPipe(t *testing.T) {
	w := newWorld(t)
	pipe := filepath.Join(w.cwd, "pipe.json")
	must(t, syscall.Mkfifo(pipe, 0o600))
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, []byte(oneServer("piped")), 0) }()
	src := w.sources(pipe)
	cfg, err := Load(src)
	must(t, err)
	must(t, <-written)
	again, err := Reload(src, cfg)
	must(t, err)
	if cfg.Server("piped") == nil || again.Server("piped") == nil {
		t.Errorf("servers are %v, after Reload %v", cfg.Servers, again.Servers)
	}

	// Nobody writes a second time.
	src.Once = &Once{}
	go func() { written <- os.WriteFile(pipe, []byte(oneServer("once")), 0) }()
	for range 2 {
		cfg, err = Load(src)
		must(t, err)
		again, err = Reload(src, cfg)
		must(t, err)
		if cfg.Server("once") == nil || again.Server("once") == nil {
			t.Errorf("servers are %v, after Reload %v", cfg.Servers, again.Servers)
		}
	}
	must(t, <-written)

	must(t, syscall.Mkfifo(filepath.Join(w.cwd, ".mcp.json"), 0o600))
	contains(t, failing(t, w.sources()).Message, ".mcp.json cannot be read: it is no regular file")
}
