package scrub

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// deepest is how many times a text may have been written as a string of JSON, or
// of a programming language, for its secrets to be found.
const deepest = 3

// appendEscaped finds in b what is written with escapes there: a tool's text is
// often JSON itself, and others escape other characters than Go does: \/, \u002B,
// \u00fc. find is what looks through the text that they stand for.
func appendEscaped(spans []span, b []byte, find func(spans []span, b []byte) []span) []span {
	text := b
	var ways []*unescaped // from each text to the one before
	for len(ways) < deepest && telling(text) {
		u := unescape(text)
		ways, text = append(ways, u), u.text
		from := len(spans)
		spans = find(spans, text)
		for i := from; i < len(spans); i++ {
			sp := &spans[i]
			for w := len(ways) - 1; w >= 0; w-- {
				sp.start, sp.end = ways[w].place(sp.start), ways[w].place(sp.end)
			}
		}
	}
	return spans
}

// telling says whether a text has an escape that hides a character of a secret,
// and not only quotes and ends of lines: what a secret has of these is known with its
// escapes ([spellings]). Behind two backslashes it is one of the text within.
func telling(b []byte) bool {
	for {
		i := bytes.IndexByte(b, '\\')
		if i < 0 || i+1 >= len(b) {
			return false
		}
		switch b[i+1] {
		case '/', 'u':
			return true
		}
		b = b[i+1:]
	}
}

// unescaped is a text without its escapes.
type unescaped struct {
	text []byte
	// marks are places behind an escape: how many bytes more stand before them
	// in what text was made of.
	marks []mark
}

type mark struct{ at, more int }

// place returns where the byte at a place of the text, or its end, is written.
func (u *unescaped) place(at int) int {
	lo, hi := 0, len(u.marks) // the last mark at or before the place
	for lo < hi {
		if mid := (lo + hi) / 2; u.marks[mid].at <= at {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return at
	}
	return at + u.marks[lo-1].more
}

// unescape reads the escapes of JSON. What is none stays as it is: the text may
// be anything.
func unescape(b []byte) *unescaped {
	u := &unescaped{text: make([]byte, 0, len(b))}
	more := 0
	for {
		i := bytes.IndexByte(b, '\\')
		if i < 0 {
			u.text = append(u.text, b...)
			return u
		}
		u.text = append(u.text, b[:i]...)
		b = b[i:]
		n, r := escapeAt(b)
		if n == 0 { // no escape
			u.text, b = append(u.text, b[0]), b[1:]
			continue
		}
		before := len(u.text)
		u.text = utf8.AppendRune(u.text, r)
		more += n - (len(u.text) - before)
		u.marks = append(u.marks, mark{len(u.text), more})
		b = b[n:]
	}
}

// escapeAt returns the length of the escape that b begins with, and the
// character that it stands for; 0: it is none.
func escapeAt(b []byte) (n int, r rune) {
	if len(b) < 2 {
		return 0, 0
	}
	switch c := b[1]; c {
	case '"', '\\', '/', '\'':
		return 2, rune(c)
	case 'b':
		return 2, '\b'
	case 'f':
		return 2, '\f'
	case 'n':
		return 2, '\n'
	case 'r':
		return 2, '\r'
	case 't':
		return 2, '\t'
	case 'u':
		const length = 6
		r, ok := hexOf(b)
		if !ok {
			return 0, 0
		}
		if !utf16.IsSurrogate(r) {
			return length, r
		}
		if low, ok := hexOf(b[length:]); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return 2 * length, pair
			}
		}
		return length, utf8.RuneError
	}
	return 0, 0
}

// hexOf reads \u and four digits.
func hexOf(b []byte) (r rune, ok bool) {
	const length = 6
	if len(b) < length || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	for _, c := range b[2:length] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case isHexDigit(c):
			r = r<<4 | rune(fold(c)-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
