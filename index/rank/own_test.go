package rank

import "testing"

// What a server says of itself stands on all its tools, and must not make the
// words of one of them worthless.
func TestServerTextTakesNothingFromItsTools(t *testing.T) {
	text := "A server with tools that add numbers."
	var docs []*Terms
	for _, d := range []Doc{
		{Server: "demo", ServerText: text, Tool: "add", Description: "Adds two numbers."},
		{Server: "demo", ServerText: text, Tool: "create_calendar", Description: "Pretends to create one calendar."},
		{Server: "demo", ServerText: text, Tool: "notes_list", Description: "Lists the notes."},
		{Server: "demo", ServerText: text, Tool: "time_now", Description: "Tells the time."},
	} {
		docs = append(docs, Analyze(d))
	}
	for range 20 {
		docs = append(docs, Analyze(Doc{Server: "demo", ServerText: text, Tool: "archive", Description: "Pretends to archive."}))
	}
	hits := Build(docs).Search(Query{Text: "add numbers"})
	if len(hits) == 0 || hits[0].Doc != 0 || len(hits) > 1 && hits[1].Score > 0.7*hits[0].Score {
		t.Errorf("the tool that adds numbers is not clearly first: %+v", hits)
	}
}
