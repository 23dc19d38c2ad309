package metamcp_test

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/config"
)

// TestRebuildLosesNothing rebuilds with an embedder that does not work: what is
// stored stays.
func TestRebuildLosesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	options := func(search map[string]any) metamcp.Options {
		file, err := writeConfig(dir, children(map[string][]string{"one": nil}, map[string]any{"search": search}))
		if err != nil {
			t.Fatal(err)
		}
		return metamcp.Options{Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir}, Log: slog.New(slog.DiscardHandler)}
	}
	good := options(map[string]any{"embedder": "builtin"})
	e, err := metamcp.Open(t.Context(), good)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Discover(t.Context(), metamcp.DiscoverRequest{Query: "add two numbers"}); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, err := metamcp.RebuildStore(t.Context(), good, metamcp.Rebuild{All: true})
	if err != nil || before.Figures == nil || len(before.Figures.Models) != 1 || before.Figures.Models[0].Vectors == 0 {
		t.Fatalf("rebuilt: %+v, %v", before, err)
	}
	broken := options(map[string]any{"embedder": "openai", "embedderUrl": "http://127.0.0.1:1", "embedderModel": "m"})
	if _, err := metamcp.RebuildStore(t.Context(), broken, metamcp.Rebuild{All: true}); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("with an embedder that is not there: %v", err)
	}
	after, err := metamcp.ReportStore(good.Sources)
	if err != nil || after.Figures == nil || len(after.Figures.Models) != 1 || after.Figures.Models[0].Vectors != before.Figures.Models[0].Vectors {
		t.Errorf("afterwards: %+v, %v; before %+v", after.Figures, err, before.Figures)
	}
}

// TestRebuildLeavesOtherProjects rebuilds one of two configurations that share
// a state folder.
func TestRebuildLeavesOtherProjects(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	project := func(server string, flags ...string) metamcp.Options {
		cwd := t.TempDir()
		file, err := writeConfig(cwd, children(map[string][]string{server: flags}, map[string]any{
			"search": map[string]any{"embedder": "builtin"}, "stateDir": filepath.Join(dir, "state"),
		}))
		if err != nil {
			t.Fatal(err)
		}
		return metamcp.Options{Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: cwd}, Log: slog.New(slog.DiscardHandler)}
	}
	one, two := project("one"), project("two", "--tools=5")
	for _, opts := range []metamcp.Options{one, two} {
		if _, err := metamcp.RebuildStore(t.Context(), opts, metamcp.Rebuild{}); err != nil {
			t.Fatal(err) // nothing is there
		}
		e, err := metamcp.Open(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Search(t.Context(), "add two numbers", metamcp.SearchOptions{Settle: time.Minute})
		if err := errors.Join(err, e.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	figures := func(r *metamcp.StoreReport, err error) (servers, vectors int) {
		t.Helper()
		if err != nil || r.Figures == nil || len(r.Figures.Models) != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		return r.Figures.Servers, r.Figures.Models[0].Vectors
	}
	servers, vectors := figures(metamcp.ReportStore(one.Sources))
	if s, v := figures(metamcp.RebuildStore(t.Context(), one, metamcp.Rebuild{})); servers != 2 || s != servers || v != vectors {
		t.Errorf("%d servers and %d vectors are left of %d and %d", s, v, servers, vectors)
	}
	const generated = 5 // tools that only the other project has
	if s, v := figures(metamcp.RebuildStore(t.Context(), one, metamcp.Rebuild{All: true})); s != 1 || v != vectors-generated {
		t.Errorf("with all: %d servers and %d vectors are left of %d and %d", s, v, servers, vectors)
	}
}
