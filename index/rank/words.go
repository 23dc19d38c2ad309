package rank

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxWord bounds, in bytes, a word; what is longer is cut, so that a text
// without a space costs no more than another.
const maxWord = 64

// A token is one term of a text.
type token struct {
	*term
	// joined marks the joined form of a word that was split at its humps, as
	// "github" of "GitHub": it stands beside its parts, not after them.
	joined bool
}

// A lexer splits texts into terms. It serves one goroutine at a time.
type lexer struct {
	tokens []token
	max    int // of tokens

	word  []byte // in lower case, the one being read
	parts int    // of the word, so far
	whole []byte // the word with all its parts
	folds []byte // scratch of fold
}

// read appends the terms of text to the tokens.
//
// A word is a run of letters and digits. It is split where a hump begins, as in
// "getUserID" and "HTTPServer", yet "URLs", "3D" and "base64" stay whole; of
// a word of two parts the joined form is a term too, so that "GitHub" meets
// "github". Runs of Chinese, Japanese and Korean become overlapping pairs of
// letters, which is what search engines do where words have no spaces between
// them.
func (l *lexer) read(text string) {
	if !ascii(text) {
		text = l.fold(text)
	}
	for i := 0; i < len(text) && len(l.tokens) < l.max; {
		c := text[i]
		if c < utf8.RuneSelf {
			if class[c] == 0 {
				i++
				continue
			}
			i = l.run(text, i)
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case paired(r):
			i = l.pairs(text, i)
		case wordRune(r):
			i = l.run(text, i)
		default:
			i += n
		}
	}
}

// Classes of ASCII characters; 0 separates words.
const (
	lower = iota + 1
	upper
	digit
)

var class = func() [utf8.RuneSelf]uint8 {
	var t [utf8.RuneSelf]uint8
	for c := range t {
		switch {
		case 'a' <= c && c <= 'z':
			t[c] = lower
		case 'A' <= c && c <= 'Z':
			t[c] = upper
		case '0' <= c && c <= '9':
			t[c] = digit
		}
	}
	return t
}()

func classOf(r rune) uint8 {
	switch {
	case r < utf8.RuneSelf:
		if r < 0 {
			return 0
		}
		return class[r]
	case unicode.IsUpper(r):
		return upper
	case unicode.IsLetter(r) || unicode.IsMark(r):
		return lower
	case unicode.IsDigit(r):
		return digit
	}
	return 0
}

func lowerRune(r rune) rune {
	if r < utf8.RuneSelf {
		if class[r] == upper {
			r |= 0x20
		}
		return r
	}
	return unicode.ToLower(r)
}

func wordRune(r rune) bool { return r != utf8.RuneError && classOf(r) != 0 }

// run reads the word that begins at i and returns where it ends.
func (l *lexer) run(text string, i int) int {
	l.word, l.whole, l.parts = l.word[:0], l.whole[:0], 0
	var last uint8 // class of the letter before
	for i < len(text) {
		r, n := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(text[i:])
			if r == utf8.RuneError || paired(r) {
				break
			}
		}
		c := classOf(r)
		if c == 0 {
			if r == '\'' || r == '’' {
				// "don't" is one word, and the possessive's s none.
				if next := i + n; next < len(text) && letterAt(text, next) {
					if possessive(text, next) {
						i = next + 1
						break
					}
					i = next
					continue
				}
			}
			break
		}
		if c == upper && len(l.word) > 0 && (last == lower || lowerAt(text, i+n)) {
			l.part()
		}
		if len(l.word)+n <= maxWord {
			if c == upper {
				r = lowerRune(r)
			}
			l.word = utf8.AppendRune(l.word, r)
		}
		last = c
		i += n
	}
	l.part()
	if l.parts == 2 && len(l.whole) <= maxWord {
		l.emit(l.whole, true)
	}
	return i
}

// lowerAt tells whether a hump of more than a plural s goes on at i: in
// "HTTPServer" the S begins one, in "URLs" the L does not.
func lowerAt(text string, i int) bool {
	if i >= len(text) {
		return false
	}
	if text[i] >= utf8.RuneSelf {
		r, _ := utf8.DecodeRuneInString(text[i:])
		return unicode.IsLower(r)
	}
	if class[text[i]] != lower {
		return false
	}
	if text[i] == 's' && (i+1 == len(text) || text[i+1] < utf8.RuneSelf && class[text[i+1]] != lower) {
		return false
	}
	return true
}

func letterAt(text string, i int) bool {
	return text[i] < utf8.RuneSelf && (class[text[i]] == lower || class[text[i]] == upper)
}

// possessive tells whether all that follows the apostrophe is an s.
func possessive(text string, i int) bool {
	return text[i]|0x20 == 's' && (i+1 == len(text) || text[i+1] < utf8.RuneSelf && class[text[i+1]] == 0)
}

// part ends a part of the word.
func (l *lexer) part() {
	if len(l.word) == 0 {
		return
	}
	l.emit(l.word, false)
	l.whole = append(l.whole, l.word...)
	l.word = l.word[:0]
	l.parts++
}

func (l *lexer) emit(word []byte, joined bool) {
	if len(l.tokens) < l.max {
		l.tokens = append(l.tokens, token{lookUp(word), joined})
	}
}

// pairs reads the run of letters without spaces that begins at i, and returns
// where it ends.
func (l *lexer) pairs(text string, i int) int {
	last, seen := "", 0
	for i < len(text) {
		r, n := utf8.DecodeRuneInString(text[i:])
		if !paired(r) {
			break
		}
		if last != "" {
			l.word = append(append(l.word[:0], last...), text[i:i+n]...)
			l.emit(l.word, false)
		}
		last = text[i : i+n]
		seen++
		i += n
	}
	if seen == 1 {
		l.word = append(l.word[:0], last...)
		l.emit(l.word, false)
	}
	l.word = l.word[:0]
	return i
}

// paired tells whether a letter belongs to a script that is read in pairs.
func paired(r rune) bool {
	return r >= 0x1100 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}

func ascii(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// fold returns text in compatibility form and without the marks on Latin,
// Greek and Cyrillic letters, so that "Café", "Ｃａｆé" and "cafe" are one
// (Unicode Standard Annex 15: NFKD, then NFC of what is left). What is
// invalid and what cannot be seen, such as a soft hyphen, goes.
func (l *lexer) fold(text string) string {
	l.folds = norm.NFKD.AppendString(l.folds[:0], text)
	kept := l.folds[:0]
	simple := false // the last letter is of a script whose marks go
	for i := 0; i < len(l.folds); {
		r, n := utf8.DecodeRune(l.folds[i:])
		b := l.folds[i : i+n]
		i += n
		switch {
		case r == utf8.RuneError && n <= 1:
			kept = append(kept, ' ')
			continue
		case r < utf8.RuneSelf:
			simple = true
		case unicode.Is(unicode.Cf, r):
			continue
		case unicode.Is(unicode.Mn, r):
			if simple {
				continue
			}
		default:
			simple = unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic)
		}
		kept = append(kept, b...)
	}
	return string(norm.NFC.Bytes(kept))
}
