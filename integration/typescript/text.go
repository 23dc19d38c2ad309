package typescript

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// isName reports whether s can stand behind a dot and as a property's name
// without quotes. Letters beyond ASCII could, too, but look-alikes are better
// seen in quotes.
func isName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// quote writes s as a string of JavaScript, with escapes for all that nobody
// sees or that ends a line.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == ' ' || isSeen(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// isSeen reports whether a reader sees r as it is; a space is not seen.
func isSeen(r rune) bool {
	switch r {
	case '\u3164', '\uffa0', '\u115f', '\u1160', utf8.RuneError: // fillers without a shape; what was no text
		return false
	}
	return unicode.IsGraphic(r) && !unicode.IsSpace(r) && !unicode.Is(unicode.Variation_Selector, r)
}

// escapeSequence is a terminal's control sequence as ECMA-48 has it: CSI with
// its parameters, OSC and its kin up to their end, or a single escape; what
// index.Plain removes, too.
var escapeSequence = regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[ -/]*[0-~])?") //nolint:gocritic // these ranges are the standard's

// plain makes text one line of what a reader sees, which can stand in a
// comment.
func plain(text string) string {
	if strings.Contains(text, "\x1b") {
		text = escapeSequence.ReplaceAllString(text, "")
	}
	var b strings.Builder
	gap := false
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			gap = b.Len() > 0
		case isSeen(r):
			if gap {
				b.WriteByte(' ')
				gap = false
			}
			b.WriteRune(r)
		}
	}
	return strings.ReplaceAll(b.String(), "*/", "* /")
}

// short returns at most so many bytes of a plain text: its first sentence, or
// whole words of it.
func short(text string, most int) string {
	// What plain removes could hide the bound, so the text is cut before, too.
	const wide = 8
	if len(text) > wide*most {
		text = strings.ToValidUTF8(text[:wide*most], "")
	}
	text = sentence(plain(text))
	if len(text) <= most {
		return text
	}
	cut := strings.LastIndexByte(text[:most], ' ')
	if cut < most/2 {
		cut = most
	}
	return strings.TrimRight(strings.ToValidUTF8(text[:cut], ""), " ,;:*") + "…"
}

// sentence is the first sentence of a text. A dot before a lower-case letter
// ends an abbreviation.
func sentence(text string) string {
	for i := 0; i < len(text); i++ {
		if text[i] != '.' && text[i] != '!' && text[i] != '?' || !strings.HasPrefix(text[i+1:], " ") {
			continue
		}
		if next, _ := utf8.DecodeRuneInString(text[i+2:]); !unicode.IsLower(next) {
			return text[:i+1]
		}
	}
	return text
}
