package metamcp_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/lockedfile"
	"github.com/metamcp/metamcp/integration/pins"
)

// What servers list is recorded also where the host ends before the disk was free:
// the next host would take whatever they list then for what they always had.
func TestPinsThatWaitAreRecordedAtTheEnd(t *testing.T) {
	dir := t.TempDir()
	e := openConfig(t, dir, children(map[string][]string{"a": nil, "b": nil, "c": nil}, nil))
	store := pins.NewStore(filepath.Join(dir, ".metamcp"))
	folder := filepath.Dir(store.Path("a"))
	echo := func(server string) bool { // which is listed first
		r, err := e.Execute(t.Context(), server, "echo", json.RawMessage(`{"text":"x"}`), metamcp.ExecuteOptions{})
		return err == nil && !r.IsError
	}
	lists := func(server string) {
		t.Helper()
		if !echo(server) {
			t.Fatal(server, "does not answer")
		}
	}
	recorded := func(server string) bool { return store.Load(server).Pinned() }
	lists("a")
	until(t, "the folder is there", func() bool { return recorded("a") })
	release, err := lockedfile.Lock(t.Context(), filepath.Join(folder, ".lock"), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	lists("b") // whose record waits for the lock
	lists("c") // and this one for that of b
	closed := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		closed <- e.Close(ctx)
	}()
	until(t, "the host has begun to end", func() bool { return !echo("a") })
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	for _, server := range []string{"b", "c"} {
		if !recorded(server) {
			t.Errorf("the tools of %s are not recorded", server)
		}
	}
}
