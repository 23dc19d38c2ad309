package metamcp_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/testkit"
)

var (
	errOldList    = errors.New("the list is that of before")
	errNotStarted = errors.New("nobody is started")
)

// growing is an engine whose listings are old at once, with a server that lists
// another tool from when grow is called on, and does not say so.
func growing(t *testing.T) (e *metamcp.Engine, grow func()) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tools.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const first = `"harvest":{"name":"harvest","description":"Harvests apples.","inputSchema":{"type":"object"}}`
	write(`{` + first + `}`)
	e = open(t, map[string][]string{"one": {"--tools-file", file}}, map[string]any{"catalog": map[string]any{"ttlMs": 1}})
	if _, err := e.ListTools(t.Context(), "one", false); err != nil {
		t.Fatal(err)
	}
	return e, func() {
		write(`{` + first + `,"press":{"name":"press","description":"Presses apples.","inputSchema":{"type":"object"}}}`)
	}
}

// TestOldListingIsRefreshedByItsNextUse: whatever shows it, the next who looks finds
// what the server has now.
func TestOldListingIsRefreshedByItsNextUse(t *testing.T) {
	t.Parallel()
	for name, shown := range map[string]func(e *metamcp.Engine) (bool, error){
		"listed": func(e *metamcp.Engine) (bool, error) {
			tools, err := e.ListTools(t.Context(), "one", false)
			return slices.ContainsFunc(tools, func(tool metamcp.Tool) bool { return tool.Name == "press" }), err
		},
		"listed by mcp_discover": func(e *metamcp.Engine) (bool, error) {
			a, err := e.Discover(t.Context(), metamcp.DiscoverRequest{Server: "one"})
			return err == nil && slices.ContainsFunc(a.Tools, func(l metamcp.ToolLine) bool { return l.Name == "press" }), err
		},
		"searched": func(e *metamcp.Engine) (bool, error) {
			found, err := e.Search(t.Context(), "apples", metamcp.SearchOptions{})
			return err == nil && slices.ContainsFunc(found.Matches, func(m metamcp.Match) bool { return m.Name == "press" }), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, grow := growing(t)
			grow()
			testkit.Eventually(t, time.Minute, func() error {
				fresh, err := shown(e)
				if err != nil {
					t.Fatal(err)
				}
				if !fresh {
					return errOldList
				}
				return nil
			})
		})
	}
}

// TestListingOfAClockThatWentBack: one that is dated after now may be of any age, so its
// next use refreshes it too.
func TestListingOfAClockThatWentBack(t *testing.T) {
	t.Parallel()
	dir, tools := t.TempDir(), filepath.Join(t.TempDir(), "tools.json")
	cfg := children(map[string][]string{"one": {"--tools-file", tools}}, nil)
	e := openConfig(t, dir, cfg)
	if _, err := e.ListTools(t.Context(), "one", false); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(dir, ".metamcp", "cache", "one", "schema.json")
	text, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`"fetched":"[^"]+"`).ReplaceAll(text, []byte(`"fetched":"`+time.Now().AddDate(1, 0, 0).Format(time.RFC3339)+`"`))
	if err := os.WriteFile(kept, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tools, []byte(`{"press":{"name":"press","description":"Presses apples.","inputSchema":{"type":"object"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	e = openConfig(t, dir, cfg)
	testkit.Eventually(t, time.Minute, func() error {
		a, err := e.Discover(t.Context(), metamcp.DiscoverRequest{Server: "one"})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(a.Tools, func(l metamcp.ToolLine) bool { return l.Name == "press" }) {
			return errOldList
		}
		return nil
	})
}

// TestOldListingDeniesNoTool: the server is asked before it is said that it has none
// of that name.
func TestOldListingDeniesNoTool(t *testing.T) {
	t.Parallel()
	e, grow := growing(t)
	if _, err := e.ToolDetails(t.Context(), "one", "press"); err == nil {
		t.Fatal("it has the tool already")
	}
	grow()
	testkit.Eventually(t, time.Minute, func() error { // at once, but in the millisecond in which the listing is new
		_, err := e.ToolDetails(t.Context(), "one", "press")
		return err
	})
}

// TestSearchRefreshesWhatItShows, and starts nobody else, however old their listings
// are, nor anybody for a program that searches once.
func TestSearchRefreshesWhatItShows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	servers := map[string][]string{}
	for i := range 8 {
		servers[fmt.Sprint("s", i)] = nil
	}
	settings := map[string]any{"catalog": map[string]any{"ttlMs": 1}}
	e := openConfig(t, dir, children(servers, settings))
	for name := range servers {
		if _, err := e.ListTools(t.Context(), name, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	e = openConfig(t, dir, children(servers, settings)) // knows them from the cache
	started := func() (names []string) {
		for _, s := range e.ListServers() {
			if s.Connected || s.State != "IDLE" {
				names = append(names, s.Name)
			}
		}
		return names
	}
	if _, err := e.Search(t.Context(), "add two numbers", metamcp.SearchOptions{Settle: time.Nanosecond}); err != nil {
		t.Fatal(err)
	}
	if got := started(); got != nil {
		t.Errorf("a program that searches once starts %v", got)
	}
	found, err := e.Search(t.Context(), "add two numbers", metamcp.SearchOptions{Limit: 1})
	if err != nil || len(found.Matches) != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	want := []string{found.Matches[0].Server}
	testkit.Eventually(t, time.Minute, func() error {
		if started() == nil {
			return errNotStarted
		}
		return nil
	})
	if got := started(); !slices.Equal(got, want) {
		t.Errorf("it starts %v, want %v", got, want)
	}
}

// TestCatalogTTLIsReloaded: another age counts for what is known already.
func TestCatalogTTLIsReloaded(t *testing.T) {
	t.Parallel()
	dir, tools := t.TempDir(), filepath.Join(t.TempDir(), "tools.json")
	servers := map[string][]string{"one": {"--tools-file", tools}}
	e := openConfig(t, dir, children(servers, nil))
	if _, err := e.ListTools(t.Context(), "one", false); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tools, []byte(`{"press":{"name":"press","inputSchema":{"type":"object"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := e.ToolDetails(t.Context(), "one", "press"); err == nil {
		t.Fatal("a listing of an hour at most is old at once")
	}
	if _, err := writeConfig(dir, children(servers, map[string]any{"catalog": map[string]any{"ttlMs": 1}})); err != nil {
		t.Fatal(err)
	}
	if err := e.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error { // at once, but in the millisecond in which the listing is new
		_, err := e.ToolDetails(t.Context(), "one", "press")
		return err
	})
}
