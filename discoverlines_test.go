package metamcp

import (
	"maps"
	"slices"
	"testing"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/messages"
)

// Each mark is explained, and none that is not there.
func TestMarksAreExplained(t *testing.T) {
	for _, c := range []struct {
		signs []string
		want  []string
	}{
		{nil, nil},
		{[]string{"hidden"}, []string{hiddenNote}},
		{[]string{"override"}, []string{suspiciousNote}},
		{[]string{"unexamined"}, []string{unexaminedNote}},
		{[]string{"hidden", "override", "unexamined"}, []string{hiddenNote, suspiciousNote, unexaminedNote}},
	} {
		all := map[string]Marks{"s": marks(&messages.ToolReview{Signs: c.signs}, false)}
		if got := markNotes(index.NewBudget(1000), maps.All(all)); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q", c.signs, got)
		}
	}
}
