package tracelog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// TestFileResumes has a disk that is full for a while.
func TestFileResumes(t *testing.T) {
	path, to := filepath.Join(t.TempDir(), "trace.jsonl"), "/dev/full"
	f, err := OpenFile(path, "me", 0, func(string) (*os.File, error) { return openAppend(to) })
	if err != nil {
		t.Fatal(err)
	}
	for _, try := range []func() error{f.Flush, f.Resume, f.Resume} {
		if err := try(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("a full disk says %v", err)
		}
	}
	to = path
	if err := f.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := f.WriteRecord(&messages.TraceRecord{Kind: "next"}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(read(t, path), " "); got != "start next" {
		t.Errorf("the file holds %s", got)
	}
}
