package index

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func searchCatalog(tb testing.TB) *Catalog {
	tb.Helper()
	var c *Catalog
	c = c.With(toolset(tb, "browser",
		definition("take_screenshot", "Captures a Screenshot of the page.", "{}"),
		definition("screenshot", "Captures the viewport.", "{}"),
		definition("navigate", "Opens a page, as the tool for a screenshot needs.", "{}"),
		definition("Open Page", "Opens one.", "{}"),
	), Labels{})
	return c.With(toolset(tb, "files",
		definition("read_file", "Reads a file 📁 from disk.", "{}"),
		definition("screenshot", "Saves a screenshot file.", "{}"),
	), Labels{})
}

func found(matches []Match) string {
	var out []string
	for _, m := range matches {
		out = append(out, fmt.Sprintf("%s/%s=%.2f", m.Entry.Tool.Server, m.Entry.Tool.Name, m.Score))
	}
	return strings.Join(out, " ")
}

func TestClassic(t *testing.T) {
	c := searchCatalog(t)
	connected := func(server string) bool { return server == "files" }
	tests := []struct {
		name string
		q    Query
		want string
	}{
		{"the example of MetaMCP's documentation", Query{Text: "screenshot", Server: "browser"}, "browser/screenshot=1.00 browser/take_screenshot=0.70 browser/navigate=0.20"},
		{"exact and description are capped", Query{Text: "SCREENSHOT"}, "browser/screenshot=1.00 files/screenshot=1.00 browser/take_screenshot=0.70 browser/navigate=0.20"},
		{"connected first among equals", Query{Text: "screenshot", Connected: connected}, "files/screenshot=1.00 browser/screenshot=1.00 browser/take_screenshot=0.70 browser/navigate=0.20"},
		{"words add up and share the maximum", Query{Text: "read file"}, "files/read_file=0.70 files/screenshot=0.10"},
		{"repeated words count once", Query{Text: "read read, file FILE file!"}, "files/read_file=0.70 files/screenshot=0.10"},
		{"the named tool comes first", Query{Text: "navigate the page for a screenshot", Limit: 4}, "browser/navigate=0.42 browser/screenshot=0.23 files/screenshot=0.23 browser/take_screenshot=0.30"},
		{"a name with a space", Query{Text: " open  page"}, "browser/Open Page=1.00 browser/navigate=0.20 browser/take_screenshot=0.10"},
		{"limit", Query{Text: "screenshot", Limit: 1}, "browser/screenshot=1.00"},
		{"server unknown", Query{Text: "screenshot", Server: "none"}, ""},
		{"emoji", Query{Text: "📁"}, "files/read_file=0.20"},
		{"no match", Query{Text: "quasar"}, ""},
		{"empty", Query{}, ""},
		{"punctuation only", Query{Text: " ?! ... __ \x00 "}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := found((Classic{}).Search(c, tt.q)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestConnectedOutranksAtTheMarginOnly(t *testing.T) {
	order := func(connected, other float64) string {
		b := board{limit: 2}
		b.offer(Match{Score: other, server: "b"})
		b.offer(Match{Score: connected, Connected: true, server: "a"})
		return b.best[0].server
	}
	if order(0.85, 0.92) != "a" {
		t.Error("0.85 connected must come before 0.92")
	}
	if order(0.5, 0.7) != "b" {
		t.Error("a connection must not outweigh a clearly better match")
	}
}

func TestDisabledIsNeverFound(t *testing.T) {
	c := searchCatalog(t)
	c.Server("files").Tool("screenshot").Enabled = false // as tool rules will make it, before the catalog is shared
	for _, r := range []Ranker{Classic{}, Hybrid{}, AnyGPT{}} {
		if got := found(r.Search(c, Query{Text: "screenshot", Server: "files"})); got != "" {
			t.Errorf("%T found %s", r, got)
		}
		all := r.Search(c, Query{Text: "screenshot", Disabled: true})
		if !slices.ContainsFunc(all, func(m Match) bool { return m.Entry.Tool.Server == "files" && !m.Entry.Enabled }) {
			t.Errorf("%T does not find it where that is asked for: %s", r, found(all))
		}
	}
}

// A searcher keeps the texts, so no query is too long for that.
func TestTextsAreBounded(t *testing.T) {
	for _, r := range []Ranker{Classic{}, Hybrid{}, AnyGPT{}} {
		for _, query := range []string{strings.Repeat("take a screenshot ", 1<<20/18), strings.Repeat("é", 1<<20)} {
			for _, text := range r.Texts(query) {
				if len(text) > maxQueryText || !utf8.ValidString(text) {
					t.Errorf("%T has one of %d bytes", r, len(text))
				}
			}
		}
	}
}

func TestSearchBoundsAndAsksOncePerServer(t *testing.T) {
	c := generated(t, 50)
	asked := map[string]int{}
	matches := (Classic{}).Search(c, Query{Text: strings.Repeat("issue workspace ", 100<<10/16), Limit: 5000, Connected: func(s string) bool {
		asked[s]++
		return false
	}})
	if len(matches) != maxLimit {
		t.Errorf("%d matches, want %d", len(matches), maxLimit)
	}
	for s, n := range asked {
		if n != 1 {
			t.Errorf("%s asked %d times", s, n)
		}
	}
	if got := len((Classic{}).Search(c, Query{Text: "workspace"})); got != defaultLimit {
		t.Errorf("%d matches, want %d", got, defaultLimit)
	}
	var many strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&many, "word%d ", i)
	}
	if n := len(Query{Text: many.String()}.words()); n != maxQueryWords {
		t.Errorf("%d words", n)
	}
}

func FuzzClassic(f *testing.F) {
	for _, q := range []string{"screenshot", "", "📁 file", "a\x00b", "\xff\xfe", "İstanbul", "take_screenshot of _page_"} {
		f.Add(q)
	}
	c := searchCatalog(f)
	f.Fuzz(func(t *testing.T, text string) {
		first, second := (Classic{}).Search(c, Query{Text: text}), (Classic{}).Search(c, Query{Text: text})
		if found(first) != found(second) {
			t.Error("two searches differ")
		}
		for _, m := range first {
			if math.IsNaN(m.Score) || m.Score <= 0 || m.Score > 1 {
				t.Errorf("score %v", m.Score)
			}
		}
	})
}

func BenchmarkClassic(b *testing.B) {
	for _, servers := range []int{1000, 10_000} {
		c := generated(b, servers)
		for _, q := range []string{"screenshot", "create calendar event invoice", "a"} {
			b.Run(fmt.Sprintf("%d_tools/%s", servers*10, strings.ReplaceAll(q, " ", "_")), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if len((Classic{}).Search(c, Query{Text: q})) == 0 {
						b.Fatal("nothing found")
					}
				}
			})
		}
	}
}
