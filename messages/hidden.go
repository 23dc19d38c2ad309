package messages

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hidden reports whether nobody sees r after the character before it, by which
// a text could say something to a model that its reader does not see: controls,
// terminal sequences, zero-width and bidirectional characters, tags, fillers,
// variation selectors that select nothing. Line feeds and tabs are seen, and so
// are the joiners inside emoji and scripts that need them, but not rows of
// them, which could spell something. A blank of Braille is seen behind a cell of it.
func Hidden(r, before rune) bool {
	const (
		zeroWidthNonJoiner, zeroWidthJoiner = '\u200c', '\u200d'
		brailleBlank, lastBraille           = '\u2800', '\u28ff'
	)
	switch {
	case r == '\n' || r == '\t':
		return false
	case unicode.IsControl(r), r == unicode.ReplacementChar:
		return true
	case r == zeroWidthNonJoiner || r == zeroWidthJoiner:
		// Between Latin letters it joins nothing. An emoji may end with a
		// variation selector before it.
		return before < utf8.RuneSelf || before == zeroWidthNonJoiner || before == zeroWidthJoiner
	case r == brailleBlank:
		return before <= brailleBlank || before > lastBraille // no blank between cells
	case unicode.Is(unicode.Variation_Selector, r):
		// One picks the look of an emoji; a supplementary one, a second one, or
		// one after a letter, carries something else.
		return r > 0xffff || before < utf8.RuneSelf && !strings.ContainsRune("#*0123456789", before) ||
			unicode.Is(unicode.Variation_Selector, before)
	}
	// Format characters: bidirectional controls, zero-width spaces, tags.
	return unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
}

// Steers reports whether a terminal may obey r, or turn the text around it, rather than
// show it: controls, with line feeds and tabs, separators of lines and paragraphs, and
// format characters such as bidirectional ones, zero-width ones and tags. The joiners
// that emoji and some scripts need are among these; whoever keeps them, or line feeds,
// looks for them before. Unlike [Hidden], it does not tell what nobody sees and nothing
// obeys, such as fillers and variation selectors.
func Steers(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}
