package index

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"create_issue", "list_issues", "get_issue", "take_screenshot", "read_file", "write_file", "navigate", "GitHub", "git", "memory", "fetch_url"}
	tests := []struct {
		name string
		n    int
		want string
	}{
		{"create_isue", 1, "create_issue"},
		{"craete_issue", 1, "create_issue"},
		{"CREATE_ISSUE", 1, "create_issue"},
		{"issueCreate", 1, "create_issue"},
		{"screenshot", 3, "take_screenshot"},
		{"github", 2, "GitHub git"},
		{"readFile", 1, "read_file"},
		{"file", 2, "read_file write_file"},
		{"quasar", 3, ""},
		{"demo2", 3, ""}, // half of memory's letters in their places are a chance
		{"memroy", 3, "memory"},
		{"fetch_page", 3, "fetch_url"}, // far in letters, but begun alike
		{"gti", 1, "git"},
		{"", 3, ""},
		{"📁", 3, ""},
		{"create_issue", 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 {
				if got := strings.Join(Nearest(tt.name, slices.Values(names), tt.n), " "); got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
				slices.Reverse(names) // the order of candidates must not matter
			}
		})
	}
	if got := Nearest(strings.Repeat("x", 1<<20), slices.Values([]string{strings.Repeat("x", 300), "x"}), 3); len(got) != 1 {
		t.Errorf("long names: %d suggestions", len(got))
	}
	if got := Nearest("git", slices.Values([]string{"git", "git"}), 3); len(got) != 1 {
		t.Errorf("a double is suggested twice: %v", got)
	}
}

func FuzzNearest(f *testing.F) {
	f.Add("create_issue", "issueCreate")
	f.Add("\xff", "É")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := newSpelledName(a), newSpelledName(b)
		if len(x.runes) == 0 || len(y.runes) == 0 {
			return
		}
		s, r := x.similarity(y), y.similarity(x)
		if s != r || s < 0 || s > 1 {
			t.Errorf("similarity %v and %v", s, r)
		}
	})
}

func BenchmarkNearest(b *testing.B) {
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("%s_%s_%d", verbs[i%10], nouns[i/10%10], i))
	}
	for b.Loop() {
		Nearest("creat_isue", slices.Values(names), 3)
	}
}
