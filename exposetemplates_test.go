package metamcp

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestTemplatesAreBounded: what a server lists as templates takes neither much memory
// nor long to be held against an URI.
func TestTemplatesAreBounded(t *testing.T) {
	many := strings.Repeat("{a}", maxTemplateNames)
	for text, want := range map[string]int{
		"file:///x": 0, "file:///{path}": 1, "db://{a,b}/{+c}{?d,e}": 5, "x://{a:3}/{b:250}": 2, "x://{": 0, "x://}": 0, many: maxTemplateNames,
		many + "{b}": -1, "{a:9999}": -1, "{a:200,b:200}": -1, "{a:99999999999999999999}": -1, "{a:-1}": -1, strings.Repeat("x", maxTemplate+1): -1,
	} {
		if got := templateNames(text); got != want {
			t.Errorf("%.40s: %d, want %d", text, got, want)
		}
	}
	greedy := []listItem{{key: "{a:9999" + strings.Repeat(",a:9999", 500) + "}"}}
	for i := range 2000 {
		greedy = append(greedy, listItem{key: fmt.Sprintf("x%d://%s", i, strings.Repeat("{a}", maxTemplateNames))})
	}
	m := new(exposure).merge(listTemplates, []offer{{server: "greedy"}, {server: "modest"}}, [][]listItem{greedy, {{key: "y://{path}"}}})
	read := 0
	for _, of := range m.templates {
		if of.match != nil && of.server == "greedy" {
			read += len(of.match.Raw())
		}
	}
	if m.templates[0].match != nil || read == 0 || read > maxTemplates {
		t.Errorf("%d bytes of templates are read", read)
	}
	if got := m.matching("y://z"); !slices.Equal(got, []string{"modest"}) {
		t.Errorf("matched by %q", got)
	}
	if got := m.matching("y://" + strings.Repeat("z", maxMatched)); got != nil {
		t.Errorf("a long URI is matched by %q", got)
	}
}
