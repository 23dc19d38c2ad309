package metamcp

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/messages"
)

// TestSearchesOfOneTokenAreBoundedTogether has one session of a token search as much as
// a client may: another session of it is refused, for itself and for its scripts, and
// one of another token is not.
func TestSearchesOfOneTokenAreBoundedTogether(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	e := opened(t, Options{Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir}, Log: slog.New(slog.DiscardHandler)})
	session := func(token string) uint64 {
		s, err := e.core.OpenSession(nil)
		if err != nil {
			t.Fatal(err)
		}
		s.BelongsTo("token " + token)
		return s.ID()
	}
	first, second, other := session("a"), session("a"), session("b")
	for range maxSearches {
		if _, refused := e.searches.join(e.core.Sharer(first)); refused != nil {
			t.Fatal(refused)
		}
	}
	script := func(session uint64) *Error {
		_, err := e.discoverForScript(t.Context(), session, json.RawMessage(`{"query":"anything"}`), nil)
		return err
	}
	if _, err := e.discoverInTurn(t.Context(), second, DiscoverRequest{}); err == nil {
		t.Error("the second session of the token searches")
	}
	if err := script(second); err == nil || err.Code != messages.CodePoolSaturated {
		t.Errorf("its script: %v", err)
	}
	if _, err := e.discoverInTurn(t.Context(), other, DiscoverRequest{}); err != nil {
		t.Errorf("another token: %v", err)
	}
	if err := script(other); err != nil {
		t.Errorf("its script: %v", err)
	}
}

func TestSearchesOfOneClientAreBounded(t *testing.T) {
	shared := newSearches()
	var left []func()
	for range maxSearches {
		l, refused := shared.join(1)
		if refused != nil {
			t.Fatal(refused)
		}
		left = append(left, l)
	}
	_, refused := shared.join(1)
	if refused == nil || refused.Code != messages.CodePoolSaturated || !refused.Retryable || refused.Hint == "" {
		t.Errorf("one more: %+v", refused)
	}
	other, refused := shared.join(2)
	if refused != nil {
		t.Fatalf("another client: %v", refused)
	}
	other()
	for _, l := range left {
		l()
	}
	if len(shared.joined) > 0 {
		t.Errorf("still counted: %v", shared.joined)
	}
}
