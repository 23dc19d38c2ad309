package metamcp_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/config"
)

// TestRebuildLosesNothing rebuilds with an embedder that does not work: what is
// stored stays.
func TestRebuildLosesNothing(t *testing.T) {
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
	before, err := metamcp.RebuildStore(t.Context(), good)
	if err != nil || before.Figures == nil || len(before.Figures.Models) != 1 || before.Figures.Models[0].Vectors == 0 {
		t.Fatalf("rebuilt: %+v, %v", before, err)
	}
	broken := options(map[string]any{"embedder": "openai", "embedderUrl": "http://127.0.0.1:1", "embedderModel": "m"})
	if _, err := metamcp.RebuildStore(t.Context(), broken); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("with an embedder that is not there: %v", err)
	}
	after, err := metamcp.ReportStore(good.Sources)
	if err != nil || after.Figures == nil || len(after.Figures.Models) != 1 || after.Figures.Models[0].Vectors != before.Figures.Models[0].Vectors {
		t.Errorf("afterwards: %+v, %v; before %+v", after.Figures, err, before.Figures)
	}
}
