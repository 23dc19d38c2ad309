//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/index/store"
)

// Beside a running host, which has the index store, a command that searches says nothing
// of that: it is usual.
func TestDiscoverBesideAHost(t *testing.T) {
	home, _ := place(t)
	started := make(chan struct{})
	close(started)
	put(t, filepath.Join(home, ".metamcp", "mcp.json"), `{"mcpServers": {"slow": {"url": "`+slowServer(t, started)+`"}}}`)
	held, err := store.Open(filepath.Join(home, ".metamcp", "catalog"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := held.Close(); err != nil {
			t.Error(err)
		}
	})
	const why = "another process uses it"
	for words, said := range map[string]bool{"discover echo": false, "discover echo --log-level info": true} {
		out, stderr, err := command(t, strings.Fields(words)...)
		if err != nil || !strings.Contains(out, "echo") || strings.Contains(stderr, why) != said || !said && stderr != "" {
			t.Errorf("%s: %v\n%s\nand said %s", words, err, out, stderr)
		}
	}
}
