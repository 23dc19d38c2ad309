package liveview

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/metamcp/metamcp/messages"
)

// replacement stands for a character that a terminal might obey.
const replacement = '\uFFFD'

// clean returns text without anything that a terminal obeys rather than shows,
// cut to about so many bytes, on one line.
func clean(text string, limit int) string {
	cut := len(text) > limit
	if cut {
		text = text[:limit]
		for i := 0; i < utf8.UTFMax && text != "" && !utf8.ValidString(text[max(0, len(text)-utf8.UTFMax):]); i++ {
			text = text[:len(text)-1]
		}
	}
	if strings.IndexFunc(text, obeyed) >= 0 || !utf8.ValidString(text) {
		text = strings.Map(func(r rune) rune {
			switch {
			case r == '\t' || r == '\n':
				return ' '
			case obeyed(r):
				return replacement
			}
			return r
		}, text)
	}
	if cut {
		text += "…"
	}
	return text
}

// obeyed tells what steers a terminal, what changes the width of others, which all
// columns depend on here, and what has no meaning agreed upon.
func obeyed(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == '\x7f'
	}
	return messages.Steers(r) || unicode.In(r, unicode.Co, unicode.Variation_Selector)
}

// width is the number of columns that a text takes.
func width(text string) int { return ansi.StringWidth(text) }

// fit makes a text so many columns wide: it cuts, and marks the cut, or pads.
func fit(text string, columns int) string {
	if columns <= 0 {
		return ""
	}
	text = cutTo(text, columns)
	return text + strings.Repeat(" ", max(0, columns-width(text)))
}

// cutTo cuts a text to at most so many columns.
func cutTo(text string, columns int) string {
	if columns <= 0 {
		return ""
	}
	if width(text) <= columns {
		return text
	}
	return ansi.Truncate(text, columns, "…")
}
