//go:build unix

package childlog_test

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/childlog"
)

// TestAPipeInTheFilesPlace: who writes does not wait for its reader, whether
// there is one or not, and the file is written once the pipe is gone.
func TestAPipeInTheFilesPlace(t *testing.T) {
	for _, read := range []bool{false, true} {
		c := newClock()
		d := childlog.NewFolder(t.TempDir(), childlog.Options{Now: c.now})
		path := d.Path("s")
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		if f, err := childlog.OpenAppend(path); err == nil {
			t.Errorf("a pipe without a reader is opened as %s", f.Name())
		}
		if read {
			r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = r.Close() })
		}
		l := d.Open("s", "")
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 20 {
				c.pass(time.Minute)
				write(t, l, []byte(strings.Repeat("x", 8000)+"\n"))
			}
		}()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Fatal("who writes waits for a reader")
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		c.pass(time.Minute)
		write(t, l, []byte("well again\n"))
		l.Close()
		if text, err := os.ReadFile(path); err != nil || !strings.HasSuffix(string(text), "well again\n") {
			t.Errorf("file %q, %v", text, err)
		}
	}
}
