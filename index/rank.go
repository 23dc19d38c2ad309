package index

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/metamcp/metamcp/index/vector"
)

// A Ranker finds the tools that fit a query best. Implementations are safe
// for concurrent use.
type Ranker interface {
	// Search returns matches, best first, in an order that depends on nothing
	// but its arguments and the vectors that the catalog's tools have by now.
	// Disabled tools are never among them, and a query without a word has
	// none.
	Search(c *Catalog, q Query) []Match
	// Texts returns the texts whose vectors the ranking can use for a query;
	// none where it ranks by words alone.
	Texts(query string) []string
}

// The names of the rankings.
const (
	RankingHybrid  = "hybrid"
	RankingClassic = "classic"
	RankingAnyGPT  = "anygpt"
)

// NewRanker returns the ranking of that name. The error lists the names.
func NewRanker(name string) (Ranker, error) {
	switch name {
	case RankingHybrid:
		return Hybrid{}, nil
	case RankingClassic:
		return Classic{}, nil
	case RankingAnyGPT:
		return AnyGPT{}, nil
	}
	return nil, fmt.Errorf("there is no ranking %q; use %s, %s or %s", name, RankingHybrid, RankingClassic, RankingAnyGPT)
}

// A Query is what to search for.
type Query struct {
	// Text is free text; what is read of it is bounded.
	Text string
	// Server narrows the search to one server; "" means all.
	Server string
	// Limit is how many matches are wanted: 0 or less means 20, and more
	// than 100 means 100.
	Limit int
	// Disabled takes tools that the rules disable as well; they rank by their words.
	Disabled bool
	// Connected says whether a server has a live connection now; nil: none
	// has. It is called at most once for each server that has a match.
	Connected func(server string) bool
	// Meaning is what an embedder made of the query; nil: words alone count.
	Meaning *Meaning
}

// takes says whether a tool may be among the matches, whoever's it is.
func (q *Query) takes(e *Entry) bool { return e.Enabled || q.Disabled }

// Meaning is a query as vectors.
type Meaning struct {
	// Model is the embedder's; tools whose vector is of another one rank by
	// words alone.
	Model string
	// Vectors are those of the ranker's Texts, nil where one is missing.
	Vectors [][]float32

	generation uint64
	background *vector.Set
}

// A Match is one tool that fits a query.
type Match struct {
	Entry *Entry
	// Score is in [0,1], and the same whether the server is connected or not.
	Score float64
	// Connected repeats what the query said of the tool's server.
	Connected bool

	exact  bool
	server string
	index  int
}

// Exact reports whether the query names the tool.
func (m Match) Exact() bool { return m.exact }

// Limits of a search.
const (
	defaultLimit = 20
	maxLimit     = 100
	// connectedBonus lets a connected tool pass a slightly better one that
	// would have to be started first. It counts for the order only.
	connectedBonus = 0.08

	maxQueryText  = 4 << 10 // bytes
	maxQueryWords = 32
)

func (q Query) limit() int {
	if q.Limit <= 0 {
		return defaultLimit
	}
	return min(q.Limit, maxLimit)
}

// words returns the distinct words of the query in lower case, without the
// punctuation around them; what is inside a word, as in take_screenshot,
// belongs to it.
func (q Query) words() []string {
	var words []string
	for _, w := range strings.Fields(strings.ToLower(cut(q.Text, maxQueryText))) {
		w = strings.TrimFunc(w, func(r rune) bool { return unicode.IsPunct(r) && r != '_' || unicode.IsControl(r) })
		w, _, _ = strings.Cut(w, "\x00")
		if strings.Trim(w, "_") == "" || slices.Contains(words, w) {
			continue
		}
		if words = append(words, w); len(words) == maxQueryWords {
			break
		}
	}
	return words
}

// cut returns at most n bytes of s and never a part of a code point.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}

// A board keeps the best matches seen so far, sorted.
type board struct {
	best  []Match
	limit int
}

func (b *board) offer(m Match) {
	if len(b.best) == b.limit && before(b.best[b.limit-1], m) <= 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(b.best, m, before)
	if len(b.best) == b.limit {
		b.best = b.best[:b.limit-1]
	}
	b.best = slices.Insert(b.best, at, m)
}

// before orders matches: a tool that the query names comes first, then the
// score with its bonus counts, then the score; names and the child's order
// settle the rest.
func before(a, b Match) int {
	if a.exact != b.exact {
		if a.exact {
			return -1
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(b.biased(), a.biased()),
		cmp.Compare(b.Score, a.Score),
		strings.Compare(a.server, b.server),
		cmp.Compare(a.index, b.index),
	)
}

func (m Match) biased() float64 {
	if m.Connected {
		return m.Score + connectedBonus
	}
	return m.Score
}
