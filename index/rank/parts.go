package rank

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxQuery      = 4 << 10 // bytes
	maxTexts      = 8
	minPartWords  = 3
	minPartTokens = 2 // that are no stop words
)

// Texts returns what of a query wants a vector: the query as a whole, then
// its sentences, if it has several that could each be a need of their own. It
// returns at most eight texts, and none for a query without a word.
func Texts(query string) []string {
	query = strings.TrimSpace(cut(query, maxQuery))
	l := lexers.Get().(*lexer)
	defer lexers.Put(l)
	if l.count(query); len(l.tokens) == 0 {
		return nil
	}
	texts := []string{query}
	for rest := query; rest != "" && len(texts) < maxTexts; {
		var s string
		s, rest = sentence(rest)
		if len(s) < len(query) && len(strings.Fields(s)) >= minPartWords && l.count(s) >= minPartTokens {
			texts = append(texts, s)
		}
	}
	if len(texts) == 2 {
		return texts[:1]
	}
	return texts
}

// count returns how many terms of a text are no stop words.
func (l *lexer) count(text string) (n int) {
	l.tokens, l.max = l.tokens[:0], maxQueryTokens
	l.read(text)
	for _, t := range l.tokens {
		if !t.stop {
			n++
		}
	}
	return n
}

// sentence cuts the first sentence off a text: up to a line feed, a Chinese
// full stop, or one of ".!?;" with white space behind it.
func sentence(text string) (first, rest string) {
	for i, r := range text {
		switch r {
		case '\n', '。', '！', '？', '；':
		case '.', '!', '?', ';':
			next, _ := utf8.DecodeRuneInString(text[i+1:])
			if i+1 < len(text) && !unicode.IsSpace(next) {
				continue
			}
		default:
			continue
		}
		return strings.TrimSpace(text[:i]), text[i+utf8.RuneLen(r):]
	}
	return strings.TrimSpace(text), ""
}
