package index

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"unicode"

	"github.com/metamcp/metamcp/integration/spelling"
)

// minSimilarity is how alike a name must be to be suggested, from 0 to 1.
const minSimilarity = 0.45

// Nearest returns at most n candidates that name may have been meant to be,
// the likeliest first: by edit distance, of a third of the longer name at most
// where they do not begin alike, by one containing the other, or by the words that
// they are made of, without regard to case. It suggests nothing rather than
// something unlike. The first 256 bytes of each name count. Equal
// ones come in alphabetical order, so the candidates may come in any.
func Nearest(name string, candidates iter.Seq[string], n int) []string {
	type suggestion struct {
		name  string
		score float64
	}
	order := func(a, b suggestion) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.name, b.name))
	}
	target := newSpelledName(name)
	var best []suggestion
	if len(target.runes) == 0 || n <= 0 {
		return nil
	}
	for c := range candidates {
		s := suggestion{c, target.similarity(newSpelledName(c))}
		if s.score < minSimilarity || (len(best) == n && order(best[n-1], s) <= 0) {
			continue
		}
		at, double := slices.BinarySearchFunc(best, s, order)
		if double {
			continue
		}
		if len(best) == n {
			best = best[:n-1]
		}
		best = slices.Insert(best, at, s)
	}
	names := make([]string, len(best))
	for i, s := range best {
		names[i] = s.name
	}
	return names
}

// A spelledName is a name prepared for comparison.
type spelledName struct {
	lower string
	runes []rune
	words []string
}

func newSpelledName(name string) spelledName {
	name = cut(name, maxToolName)
	lower := strings.ToLower(name)
	return spelledName{lower, []rune(lower), nameWords(name)}
}

// similarity is 1 for names that differ in case alone.
func (s spelledName) similarity(o spelledName) float64 {
	if len(o.runes) == 0 {
		return 0
	}
	if s.lower == o.lower {
		return 1
	}
	long, short := max(len(s.runes), len(o.runes)), min(len(s.runes), len(o.runes))
	best := 0.0
	if short >= 3 && (strings.Contains(s.lower, o.lower) || strings.Contains(o.lower, s.lower)) {
		best = 0.6 + 0.35*float64(short)/float64(long)
	}
	shared := 0
	for _, w := range s.words {
		if slices.Contains(o.words, w) {
			shared++
		}
	}
	// The same words in another order, or some of them.
	if all := len(s.words) + len(o.words) - shared; all > 0 {
		best = max(best, 0.97*float64(shared)/float64(all))
	}
	// The difference in length is the least that the distance can be.
	if bound := 1 - float64(long-short)/float64(long); bound > best {
		if d := spelling.DistanceOfRunes(s.runes, o.runes); d <= max(1, long/3) || 2*commonPrefix(s.runes, o.runes) >= long {
			best = max(best, 1-float64(d)/float64(long))
		}
	}
	return best
}

// commonPrefix counts the runes with which both begin.
func commonPrefix(a, b []rune) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// nameWords splits a name at punctuation, digits' ends and camelCase humps.
func nameWords(name string) []string {
	var words []string
	var word []rune
	flush := func() {
		if w := strings.ToLower(string(word)); w != "" && !slices.Contains(words, w) {
			words = append(words, w)
		}
		word = word[:0]
	}
	var previous rune
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			flush()
		case unicode.IsUpper(r) && unicode.IsLower(previous), unicode.IsDigit(r) != unicode.IsDigit(previous):
			flush()
			word = append(word, r)
		default:
			word = append(word, r)
		}
		previous = r
	}
	flush()
	return words
}
