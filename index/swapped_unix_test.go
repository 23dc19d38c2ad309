//go:build unix

package index

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A pipe that takes the place of a cache's file between a look at it and its opening
// holds nobody up: nobody is at its other end.
func TestASwappedPipeHoldsNoReaderUp(t *testing.T) {
	t.Parallel()
	c, root := newTestCache(t)
	if _, err := c.Save(cachedToolset(t, "s")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "s", cacheFile)
	file, pipe, next := filepath.Join(root, "file"), filepath.Join(root, "pipe"), filepath.Join(root, "next")
	if err := errors.Join(os.Link(path, file), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	swapped := make(chan error, 1)
	go func() {
		for turn := 0; !over.Load(); turn++ {
			if err := errors.Join(os.Link([]string{pipe, file}[turn%2], next), os.Rename(next, path)); err != nil {
				swapped <- err
				return
			}
		}
		swapped <- nil
	}()
	read := make(chan struct{})
	go func() {
		defer close(read)
		for range 5000 {
			_, _ = c.Load("s") // the pipe is refused, and the file is not
			_, _ = namedIn(path)
		}
	}()
	select {
	case <-read:
	case <-time.After(time.Minute):
		t.Error("a reader waits for the other end of a pipe")
	}
	over.Store(true)
	if err := <-swapped; err != nil {
		t.Error(err)
	}
}
