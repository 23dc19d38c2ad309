//go:build unix

package metamcp

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/testkit"
)

// A host prepares for searches before its first client comes.
func TestAHostBeginsWithoutAClient(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "mm") //nolint:usetesting // the folder of a test is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	e := opened(t, Options{Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir}, Log: slog.New(slog.DiscardHandler)})
	h, err := e.OpenHost(HostOptions{})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		if st := e.core.IndexStatus(); st.Storage != index.StorageDisk {
			return fmt.Errorf("the index store is not open: %+v", st)
		}
		return nil
	})
	if err := h.Drain(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
