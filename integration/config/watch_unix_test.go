//go:build unix

package config

import (
	"fmt"
	"os"
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
