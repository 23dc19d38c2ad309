package registry

import (
	"context"
	"slices"
	"sort"
	"strings"
	"unicode"
)

const (
	maxSearchWords = 4
	minSearchWord  = 3 // letters
)

// Search finds servers for words of people, who write more than a part of one
// name. Registries look for the text as it is; where that finds nothing, Search
// asks for each of its first words (of a package's name, for the part behind its
// scope) and lists the servers that more words find first. A built-in server
// whose package the text names exactly is in the answer in any case. Time,
// errors and all else are as in [Client.List].
func (c *Client) Search(ctx context.Context, q Query) (*Answer, error) {
	bounded, cancel := context.WithTimeout(ctx, c.opts.Total)
	defer cancel()
	a, err := c.List(ctx, q)
	if err != nil {
		return nil, err
	}
	words := searchWords(q.Search)
	if len(a.Servers) == 0 && len(words) > 0 && (len(words) > 1 || words[0] != strings.TrimSpace(q.Search)) {
		if err := c.searchEach(bounded, q, words, a); err != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	addNamed(a, q.Search)
	return a, nil
}

// searchEach adds to a what the words find. It ends early with the context.
func (c *Client) searchEach(ctx context.Context, q Query, words []string, a *Answer) error {
	type hit struct {
		server Server
		words  int
	}
	var hits []hit
	at := map[string]int{}
	a.Source, a.Complete = "", false
	for _, word := range words {
		one := q
		one.Search = word
		var found *Answer
		if a.Cause != nil { // it is not asked again, only what is known
			if one.Limit <= 0 {
				one.Limit = defaultLimit
			}
			found = c.offline(&one, &Answer{Cause: a.Cause})
			found.Notes = nil // said already
		} else {
			var err error
			if found, err = c.List(ctx, one); err != nil {
				return err
			}
			a.Cause = found.Cause
		}
		for _, note := range found.Notes {
			if !slices.Contains(a.Notes, note) {
				a.Notes = append(a.Notes, note)
			}
		}
		for i := range found.Servers {
			key := found.Servers[i].Name + "\n" + found.Servers[i].Version
			if n, seen := at[key]; seen {
				hits[n].words++
				continue
			}
			at[key] = len(hits)
			hits = append(hits, hit{found.Servers[i], 1})
		}
		a.Age = max(a.Age, found.Age)
		// The worst source counts that gave anything.
		if a.Source == "" || len(found.Servers) > 0 && found.Source != FromRegistry {
			a.Source = found.Source
		}
	}
	sort.SliceStable(hits, func(i, j int) bool { return hits[i].words > hits[j].words })
	limit := q.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	for _, h := range hits[:min(len(hits), limit)] {
		a.Servers = append(a.Servers, h.server)
	}
	return nil
}

// addNamed adds the built-in servers whose package the text names.
func addNamed(a *Answer, text string) {
	known := map[string]bool{}
	for i := range a.Servers {
		for j := range a.Servers[i].Packages {
			known[a.Servers[i].Packages[j].Identifier] = true
		}
	}
	for _, word := range strings.Fields(text) {
		word = strings.Trim(word, "\"'`.,;:!?()")
		for _, s := range Builtin() {
			if s.Name == word && !known[s.Name] {
				known[s.Name] = true
				a.Servers = append(a.Servers, s)
				a.Notes = append(a.Notes, s.Name+" is from the built-in list, not from the registry")
			}
		}
	}
}

// searchWords are the words of a text that a registry can find in a name.
func searchWords(text string) []string {
	var words []string
	for _, w := range strings.Fields(strings.ToLower(text)) {
		w = strings.TrimFunc(w, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if i := strings.LastIndex(w, "/"); i >= 0 {
			w = w[i+1:]
		}
		if w, _, _ = strings.Cut(w, "@"); len([]rune(w)) < minSearchWord || tooCommon[w] || slices.Contains(words, w) {
			continue
		}
		if words = append(words, w); len(words) == maxSearchWords {
			break
		}
	}
	return words
}

// tooCommon are words that find everything, or nothing that is meant.
var tooCommon = map[string]bool{
	"and": true, "for": true, "from": true, "mcp": true, "need": true, "server": true, "servers": true, "that": true, "the": true, "tool": true, "tools": true,
	"use": true, "using": true, "want": true, "with": true, "please": true, "install": true, "can": true, "you": true, "some": true, "into": true,
}
