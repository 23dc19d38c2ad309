package metamcp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/integration/pins"
	"github.com/metamcp/metamcp/messages"
)

// Of servers that left the configuration no definitions stay in memory that could not be
// written, but what was accepted of them stays accepted.
func TestServersThatAreGoneKeepNoDefinitions(t *testing.T) {
	listing := func(server, says string) *messages.Toolset {
		t.Helper()
		tools, _, err := index.ParseTools(server, json.RawMessage(`{"tools":[{"name":"x","description":"`+says+`","inputSchema":{"type":"object"}}]}`))
		if err != nil {
			t.Fatal(err)
		}
		return &messages.Toolset{Server: server, Tools: tools}
	}
	state := t.TempDir()
	// A folder in the place of the lock stops root, too.
	if err := os.MkdirAll(filepath.Join(state, pins.Folder, ".lock", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	k := &keeper{store: pins.NewStore(state)}
	for _, server := range []string{"there", "gone"} {
		accepted, _, err := k.store.Record(t.Context(), listing(server, "One."), nil)
		if err == nil || !accepted.Unwritten() {
			t.Fatal("it was written")
		}
		k.memory.Store(server, accepted)
	}
	k.slimGone(func(server string) bool { return server == "there" })
	for _, server := range []string{"there", "gone"} {
		now, _, err := k.store.Record(t.Context(), listing(server, "Two."), k.remembered(server))
		if err == nil {
			t.Fatal("it was written")
		}
		differs := now.Differences()
		if len(differs) != 1 || differs[0].Change != messages.ToolAltered {
			t.Fatalf("%s: what differs is %v", server, differs)
		}
		if has := differs[0].Old.Definition != nil; has != (server == "there") {
			t.Errorf("%s has a definition: %v", server, has)
		}
	}
}
