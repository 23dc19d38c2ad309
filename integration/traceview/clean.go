package traceview

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"

	"github.com/metamcp/metamcp/messages"
)

// How much of a text is kept, in bytes.
const (
	maxName    = 256
	maxDetail  = 2048
	maxPayload = 4096
)

// replacement stands for a character that a terminal or a page might obey.
const replacement = '\uFFFD'

// cutMark ends a text that was cut.
const cutMark = "…"

// clean returns text without anything that is obeyed rather than shown, cut to
// about so many bytes. What is left is valid UTF-8 on one line.
func clean(text string, limit int) string {
	cut := false
	if len(text) > limit {
		text, cut = text[:limit], true
		for text != "" && !utf8.RuneStart(text[len(text)-1]) {
			text = text[:len(text)-1]
		}
		if text != "" && text[len(text)-1] >= utf8.RuneSelf {
			text = text[:len(text)-1] // the first byte of a rune that was cut
		}
	}
	if strings.IndexFunc(text, obeyed) >= 0 {
		text = strings.Map(func(r rune) rune {
			if obeyed(r) {
				return replacement
			}
			return r
		}, text)
	}
	text = strings.ToValidUTF8(text, string(replacement))
	if cut {
		text += cutMark
	}
	return text
}

// obeyed tells what steers a terminal and what has no meaning agreed upon.
func obeyed(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == '\x7f'
	}
	return messages.Steers(r) || unicode.Is(unicode.Co, r)
}

// cells is the number of columns of a terminal that a rune takes.
func cells(r rune) int {
	if r < utf8.RuneSelf {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	if k := width.LookupRune(r).Kind(); k == width.EastAsianWide || k == width.EastAsianFullwidth {
		return 2
	}
	return 1
}

// textCells is the number of columns of a terminal that a text takes.
func textCells(text string) int {
	n := 0
	for _, r := range text {
		n += cells(r)
	}
	return n
}

// fit cuts a text to so many columns and marks the cut; "" where there is no
// room at all.
func fit(text string, columns int, mark string) string {
	if textCells(text) <= columns {
		return text
	}
	room := columns - textCells(mark)
	if room < 1 {
		return ""
	}
	at := 0
	for i, r := range text {
		if at += cells(r); at > room {
			return text[:i] + mark
		}
	}
	return text
}

// plainASCII replaces what this package itself writes beyond ASCII, and every
// other such rune by a question mark.
func plainASCII(text string) string {
	text = asciiWords.Replace(text)
	return strings.Map(func(r rune) rune {
		if r >= utf8.RuneSelf {
			return '?'
		}
		return r
	}, text)
}

var asciiWords = strings.NewReplacer("→", "->", "µ", "u", cutMark, "..", "·", "-", "×", "x")
