package metamcp

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/skills"
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

// turnless is skills that are read while a turn can be had, or not.
type turnless struct {
	searches *searches
	reads    int
	held     bool // somebody held the only turn meanwhile
}

func (r *turnless) Read(context.Context) ([]skills.Skill, []skills.Problem) {
	began, over, err := r.searches.Queue(99)
	if err != nil {
		return nil, nil
	}
	defer over()
	r.reads++
	select {
	case <-began:
	default:
		r.held = true
	}
	return []skills.Skill{{Name: "sums", Description: "Add up numbers."}}, nil
}

// Nobody waits for a search because another one reads files.
func TestSkillsAreReadWithoutATurn(t *testing.T) {
	t.Parallel()
	e := openReloading(t, `{"mcpServers":{}}`).e
	e.searches = &searches{Turns: actors.NewTurns(1, math.MaxInt), joined: map[uint64]int{}}
	r := &turnless{searches: e.searches}
	e.skills = r
	for _, ask := range []DiscoverRequest{{}, {Query: "add up numbers"}} {
		a, err := e.discoverInTurn(t.Context(), 7, ask)
		if err != nil || len(a.Skills) != 1 {
			t.Errorf("%+v: %+v, %v", ask, a, err)
		}
	}
	if r.held || r.reads != 2 {
		t.Errorf("skills were read %d times, while a turn was held: %v", r.reads, r.held)
	}
}
