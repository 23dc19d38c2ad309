//go:build unix

package atomicfile_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/atomicfile"
)

// Nothing of a file is ever in the folder for temporary files, where it would stay after
// a kill.
func TestWriteStaysInItsFolder(t *testing.T) {
	dir, temp := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	long := time.Now().Add(-time.Hour).Truncate(time.Second)
	if err := os.Chtimes(temp, long, long); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(filepath.Join(dir, "x.json"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(temp); err != nil || !info.ModTime().Equal(long) {
		t.Errorf("something was made in $TMPDIR: %v, %v", info.ModTime(), err)
	}
}
