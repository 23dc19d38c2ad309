package index

import (
	"math"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/index/vector"
)

func TestAnyGPT(t *testing.T) {
	var c *Catalog
	c = c.With(toolset(t, "files",
		definition("read", "Reads a file from disk.", "{}"),
		definition("stat", "Tells the size of one.", "{}"),
	), Labels{Tags: []string{"Disk"}})
	tests := []struct {
		query string
		want  map[string]float64
	}{
		// In name (1) and description (0.8) as a whole, each again as a word; capped.
		{"read", map[string]float64{"read": 1}},
		// The formula takes parts of words: "a" is in both names.
		{"a file", map[string]float64{"read": 1, "stat": 0.5}},
		{"file size", map[string]float64{"read": 0.3, "stat": 0.3}},
		{"stat a thing", map[string]float64{"stat": 1, "read": 0.8}},
		// The tag is in the query; "disk" is in one description too.
		{"size of disk", map[string]float64{"stat": 0.9, "read": 0.6}},
		{"", nil},
		{"quasar", nil},
	}
	for _, tt := range tests {
		t.Run(tt.query, func(t *testing.T) {
			got := AnyGPT{}.Search(c, Query{Text: tt.query})
			if len(got) != len(tt.want) {
				t.Fatalf("got %s, want %v", found(got), tt.want)
			}
			for _, m := range got {
				if want := tt.want[m.Entry.Tool.Name]; math.Abs(m.Score-want) > 1e-9 {
					t.Errorf("%s scores %v, want %v", m.Entry.Tool.Name, m.Score, want)
				}
			}
		})
	}
}

// meaningOf gives tools vectors by hand, and returns a query's meaning.
func meaningOf(c *Catalog, query []float32, vectors map[string][]float32) *Meaning {
	for server := range c.All() {
		for _, e := range server.Entries {
			if v := vectors[e.Tool.Name]; v != nil {
				e.passage.vector.Store(&embedding{"m", vector.NewRow(v)})
			}
		}
	}
	return &Meaning{Model: "m", Vectors: [][]float32{query}}
}

func TestClassicWithMeaning(t *testing.T) {
	c := searchCatalog(t)
	m := meaningOf(c, []float32{1, 0}, map[string][]float32{
		"take_screenshot": {1, 0}, "navigate": {0.6, 0.8}, "read_file": {-1, 0}, "Open Page": {0, 1},
	})
	tests := []struct {
		name string
		q    Query
		want string
	}{
		// 0.6 * 1 + 0.4 * 0.7; 0.4 * 1; 0.6 * 0.6 + 0.4 * 0.2.
		{"both count", Query{Text: "screenshot", Server: "browser", Meaning: m}, "browser/screenshot=0.40 browser/take_screenshot=0.88 browser/navigate=0.44"},
		{"meaning alone", Query{Text: "picture", Meaning: m}, "browser/take_screenshot=0.60 browser/navigate=0.36"},
		{"of another model", Query{Text: "picture", Meaning: &Meaning{Model: "other", Vectors: m.Vectors}}, ""},
		{"no vector", Query{Text: "screenshot", Server: "files", Meaning: &Meaning{Model: "m"}}, "files/screenshot=1.00"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := found((Classic{}).Search(c, tt.q)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestNewRanker(t *testing.T) {
	for _, name := range []string{RankingHybrid, RankingClassic, RankingAnyGPT} {
		if r, err := NewRanker(name); err != nil || r == nil {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	if _, err := NewRanker("best"); err == nil || !strings.Contains(err.Error(), "hybrid, classic or anygpt") {
		t.Errorf("an unknown name: %v", err)
	}
}
