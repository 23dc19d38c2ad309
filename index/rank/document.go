package rank

import (
	"strings"
	"unicode/utf8"
)

// A Param is a parameter of a tool.
type Param struct{ Name, Description string }

// A Doc is what is known of one tool.
type Doc struct {
	Server      string
	ServerText  string // the server's own description or instructions, often ""
	Tool        string
	Title       string
	Description string
	Params      []Param
	Tags        []string
}

// Limits of what is read of one tool.
const (
	maxName       = 256 // bytes
	maxText       = 8 << 10
	maxParamText  = 1 << 10
	maxServerText = 1 << 10
	maxParams     = 64
	maxTags       = 32

	maxNameTokens  = 48
	maxTextTokens  = 600
	maxParamTokens = 600 // of all parameters
	maxDocTerms    = 1500

	maxPassage = 200 // bytes of description; 400 measured no better, and take twice the time
)

// Passage returns the text by which an embedder is to know a tool: its name
// in words and the beginning of its description, or of its title where there
// is no description. It is at most some 500 bytes long.
func Passage(d Doc) string {
	var b strings.Builder
	spell(&b, cut(d.Tool, maxName))
	text := d.Description
	if strings.TrimSpace(text) == "" {
		text = d.Title
	}
	if text = squeeze(cut(text, 4*maxPassage), maxPassage); text != "" {
		b.WriteString(": ")
		b.WriteString(text)
	}
	return b.String()
}

// spell writes a name as words: without separators, and apart at humps.
func spell(b *strings.Builder, name string) {
	var last uint8
	space := false
	for i, r := range name {
		c := classOf(r)
		if c == 0 && !paired(r) {
			space, last = b.Len() > 0, 0
			continue
		}
		if c == upper && last != 0 && (last == lower || lowerAt(name, i+utf8.RuneLen(r))) {
			space = true
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
		last = c
	}
}

// squeeze returns at most n bytes of s with single spaces for white space.
func squeeze(s string, n int) string {
	return cut(strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), ""), n)
}

// cut returns at most n bytes of s and never a part of a code point.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
