package rank

import (
	"fmt"
	"testing"
)

// Names that differ in case and separators alone are all exact, but the one
// that the query says comes first: a server must not push another's tool out by
// listing all variants of its name.
func TestLiteralNameComesFirst(t *testing.T) {
	var docs []*Terms
	for i, name := range []string{"SEARCH", "se_arch", "Sear-ch", "s_e_arch", "S_earch", "c++"} {
		docs = append(docs, Analyze(Doc{Server: fmt.Sprintf("a%d", i), Tool: name, Description: "Search, search, search."}))
	}
	docs = append(docs,
		Analyze(Doc{Server: "z", Tool: "search", Description: "Looks for pages."}),
		Analyze(Doc{Server: "z", Tool: "c#", Description: "A language."}))
	ix := Build(docs)
	for query, want := range map[string]int{"search": 6, "SEARCH": 0, "se_arch": 1, "c#": 7, "c++": 5} {
		hits := ix.Search(Query{Text: query, Limit: 3, Connected: func(doc int) bool { return doc < 5 }})
		if len(hits) == 0 || hits[0].Doc != want || !hits[0].Exact {
			t.Errorf("%q finds %+v, want document %d first", query, hits, want)
		}
	}
}
