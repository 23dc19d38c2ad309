package metamcp_test

import (
	"math"
	"strings"
	"testing"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/config"
)

const benchCatalog = `
{"source": "a", "server": "files", "tool": "read_file", "description": "Read the contents of a file"}
{"source": "a", "server": "files", "tool": "write_file", "description": "Write text to disk"}
{"source": "a", "server": "mail", "tool": "send", "description": "Send an electronic letter"}
{"source": "b", "server": "shop", "tool": "list_orders", "description": "List orders"}
`

func searchBench(t *testing.T, queries string, limit int) (*metamcp.SearchFigures, string, error) {
	t.Helper()
	dir := t.TempDir()
	file, err := writeConfig(dir, children(nil, map[string]any{"search": map[string]any{"embedder": "none"}}))
	if err != nil {
		t.Fatal(err)
	}
	var run strings.Builder
	f, err := metamcp.RunSearchBench(t.Context(), metamcp.SearchBench{
		Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir},
		Catalog: strings.NewReader(benchCatalog), Queries: strings.NewReader(queries), Run: &run, Limit: limit,
	})
	return f, run.String(), err
}

func TestSearchBenchScores(t *testing.T) {
	t.Parallel()
	f, run, err := searchBench(t, `
{"id": "1", "source": "a", "query": "read_file", "relevant": ["files/read_file"]}
{"id": "2", "source": "a", "query": "send", "relevant": [{"server": "mail", "tool": "send", "group": 1}, {"server": "files", "tool": "read_file", "group": 1}, "files/write_file"]}
{"id": "3", "source": "a", "query": "orders of a shop"}
{"id": "4", "source": "b", "query": "list_orders", "relevant": ["shop/list_orders"]}
{"id": "5", "source": "b", "query": "zzzz", "relevant": ["shop/list_orders"]}
`, 1)
	if err != nil {
		t.Fatal(err)
	}
	// Query 2 needs two things and its results hold one of them, at the top.
	half := 1 / (1 + 1/math.Log2(3))
	want := []metamcp.SearchScore{
		{Source: "a", Queries: 2, Recall5: 0.75, NDCG10: (1 + half) / 2, MRR: 1},
		{Source: "b", Queries: 2, Recall5: 0.5, NDCG10: 0.5, MRR: 0.5},
	}
	near := func(x, y float64) bool { return math.Abs(x-y) < 1e-9 }
	if len(f.Scores) != len(want) || f.Macro == nil {
		t.Fatalf("%+v", f)
	}
	for i, s := range f.Scores {
		if w := want[i]; s.Source != w.Source || s.Queries != w.Queries || !near(s.Recall5, w.Recall5) || !near(s.NDCG10, w.NDCG10) || !near(s.MRR, w.MRR) {
			t.Errorf("%+v, want %+v", s, w)
		}
	}
	if m := f.Macro; m.Queries != 4 || !near(m.Recall5, 0.625) || !near(m.MRR, 0.75) || !near(m.NDCG10, (f.Scores[0].NDCG10+0.5)/2) {
		t.Errorf("macro: %+v", m)
	}
	if f.Unscored != 1 || f.NothingFound != 2 || strings.Join(f.NothingIDs, " ") != "3 5" {
		t.Errorf("unscored %d, nothing found %d: %v", f.Unscored, f.NothingFound, f.NothingIDs)
	}
	if strings.Count(run, "\n") != 5 || strings.Count(run, `"tool"`) != 3 {
		t.Errorf("a run of at most one result each:\n%s", run)
	}
}

func TestSearchBenchWithoutAnswers(t *testing.T) {
	t.Parallel()
	f, _, err := searchBench(t, `{"id": "1", "source": "a", "query": "read"}`, 0)
	if err != nil || f.Scores != nil || f.Macro != nil || f.Unscored != 1 {
		t.Errorf("%+v, %v", f, err)
	}
	for query, want := range map[string]string{
		`{"id": "1", "source": "a", "query": "read", "relevant": ["files/reed_file"]}`: `"files/reed_file" is not in the catalog`,
		`{"id": "1", "source": "a", "query": "read", "relevant": [{"tool": "x"}]}`:     `a right tool is "server/tool"`,
	} {
		if _, _, err := searchBench(t, query, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", query, err)
		}
	}
}
