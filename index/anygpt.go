package index

import "strings"

// Points of the AnyGPT ranking.
const (
	anygptNameHasQuery    = 1.0
	anygptSummaryHasQuery = 0.8
	anygptNameHasWord     = 0.5
	anygptSummaryHasWord  = 0.3
	anygptTag             = 0.3
)

// AnyGPT is the relevance formula of AnyGPT's discovery server: 1 where the
// name contains the whole query and 0.8 where the summary does; for each word
// of the query 0.5 where the name contains it and 0.3 where the summary does;
// 0.3 for each tag that the query contains; at most 1. The tool's description
// stands for the summary. It knows no meaning.
type AnyGPT struct{}

// Texts implements [Ranker].
func (AnyGPT) Texts(string) []string { return nil }

// Search implements [Ranker].
func (AnyGPT) Search(c *Catalog, q Query) []Match {
	query := strings.ToLower(strings.TrimSpace(cut(q.Text, maxQueryText)))
	words := strings.Fields(query)
	if len(words) == 0 {
		return nil
	}
	words = words[:min(len(words), maxQueryWords)]
	top := board{limit: q.limit()}
	for e := range c.All() {
		server := e.Toolset.Server
		if q.Server != "" && q.Server != server {
			continue
		}
		asked, connected := false, false
		for i, entry := range e.Entries {
			if !q.takes(entry) {
				continue
			}
			score := anygptScore(entry, e.read().descriptions.at(i), query, words)
			if score == 0 {
				continue
			}
			if !asked && q.Connected != nil {
				asked, connected = true, q.Connected(server)
			}
			top.offer(Match{Entry: entry, Score: score, Connected: connected, exact: entry.passage.lowerName == query, server: server, index: i})
		}
	}
	return top.best
}

// anygptScore rates one tool; query, words and summary are in lower case.
func anygptScore(e *Entry, summary, query string, words []string) float64 {
	score := 0.0
	if strings.Contains(e.passage.lowerName, query) {
		score += anygptNameHasQuery
	}
	if strings.Contains(summary, query) {
		score += anygptSummaryHasQuery
	}
	for _, w := range words {
		if strings.Contains(e.passage.lowerName, w) {
			score += anygptNameHasWord
		}
		if strings.Contains(summary, w) {
			score += anygptSummaryHasWord
		}
	}
	for _, tag := range e.Tags {
		if tag != "" && strings.Contains(query, strings.ToLower(tag)) {
			score += anygptTag
		}
	}
	return min(score, 1)
}
