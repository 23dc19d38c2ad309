package supervision

import (
	"regexp"
	"strings"
	"sync"
	"unicode"

	"github.com/metamcp/metamcp/messages"
)

// ansi matches terminal escapes: colours and cursor moves, and titles.
var ansi = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\^_])") //nolint:gocritic // the ranges are those of ECMA-48
})

// oneLine makes s fit to be shown within a line: valid UTF-8, no terminal
// escapes, nothing that nobody sees, runs of white space as one blank, at most maxLine
// bytes, cut with an ellipsis between two words: secrets are taken out of it later.
func oneLine(s string) string {
	if strings.ContainsRune(s, '\x1b') {
		s = ansi().ReplaceAllString(s, "")
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	var b strings.Builder
	blank, before := false, ' '
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			blank, before = b.Len() > 0, ' '
			continue
		case r != unicode.ReplacementChar && messages.Hidden(r, before):
			continue
		}
		before = r
		if blank {
			b.WriteByte(' ')
			blank = false
		}
		b.WriteRune(r)
		if b.Len() > maxLine {
			return messages.CutAtWord(b.String(), maxLine)
		}
	}
	return b.String()
}

// nonEmptyLines returns the lines of s that are not blank.
func nonEmptyLines(s string) []string {
	var out []string
	for line := range strings.SplitSeq(s, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}
