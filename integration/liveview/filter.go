package liveview

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/metamcp/metamcp/integration/tracelog"
	"github.com/metamcp/metamcp/messages"
)

// query is a filter as it was typed: conditions of [tracelog.ParseFilter] and
// words that must all be somewhere in the record.
type query struct {
	text   string
	filter *tracelog.Filter
	words  []string // lower case
}

var conditions = []string{"server=", "actor=", "type=", "request="}

// parseQuery reads a filter. Where a word begins like a condition it is one.
func parseQuery(text string) (query, error) {
	q := query{text: strings.Join(strings.Fields(text), " ")}
	var given []string
	for _, word := range strings.Fields(text) {
		if word == "errors" || isCondition(word) {
			given = append(given, word)
			continue
		}
		q.words = append(q.words, strings.ToLower(word))
	}
	var err error
	if q.filter, err = tracelog.ParseFilter(given); err != nil {
		return query{}, err
	}
	return q, nil
}

func isCondition(word string) bool {
	for _, c := range conditions {
		if strings.HasPrefix(word, c) {
			return true
		}
	}
	return false
}

// all tells that nothing is filtered.
func (q *query) all() bool { return q.filter == nil && len(q.words) == 0 }

func (q *query) wants(r *messages.TraceRecord) bool {
	if !q.filter.Wants(r) {
		return false
	}
	for _, word := range q.words {
		if !holds(r, word) {
			return false
		}
	}
	return true
}

// holds tells whether a word is in one of the texts of a record; # and a number
// are the request alone.
func holds(r *messages.TraceRecord, word string) bool {
	if n, err := strconv.ParseUint(strings.TrimPrefix(word, "#"), 10, 64); err == nil && word[0] == '#' {
		return r.Request == n
	}
	for _, text := range []string{r.Type, r.To, r.From, r.Kind, r.Tool, r.Server, r.Before, r.After, r.Outcome, r.Detail} {
		if strings.Contains(strings.ToLower(text), word) {
			return true
		}
	}
	return false
}

// onActor is the filter for an actor and everything below it. A blank would end
// a condition, and what a terminal obeys must not be in the prompt: such a
// character is any one.
func onActor(id string) string {
	pattern := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(id)
	pattern = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == utf8.RuneError || obeyed(r) {
			return '?'
		}
		return r
	}, pattern)
	return "actor=" + pattern + " actor=" + pattern + "/*"
}
