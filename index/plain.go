package index

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/metamcp/metamcp/messages"
)

// escapeSequence is a terminal's control sequence as ECMA-48 has it: CSI with
// its parameters, OSC and its kin up to their end, or a single escape.
var escapeSequence = regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[ -/]*[0-~])?") //nolint:gocritic // these ranges are the standard's

// Plain returns text as a person would see it: without terminal sequences,
// control characters and invisible ones, by which a description could say
// something to a model that its reader does not see. hidden says that there
// were some. Line feeds and tabs stay, and so do the joiners inside emoji and
// scripts that need them.
func Plain(text string) (plain string, hidden bool) {
	if !suspicious(text) {
		return text, false
	}
	if hidden = strings.Contains(text, "\x1b"); hidden {
		text = escapeSequence.ReplaceAllString(text, "")
	}
	var b strings.Builder
	b.Grow(len(text))
	before := rune(' ')
	for _, r := range text {
		switch {
		case r == '\r':
			continue
		case messages.Hidden(r, before):
			hidden = true
			continue
		}
		b.WriteRune(r)
		before = r
	}
	return b.String(), hidden
}

// suspicious reports whether text needs a closer look.
func suspicious(text string) bool {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c >= utf8.RuneSelf, c < ' ' && c != '\n' && c != '\t', c == 0x7f:
			return true
		}
	}
	return false
}

// PlainJSON does to each string of a JSON text what [Plain] does, and leaves
// the rest byte for byte. Text that is no JSON comes back as it is.
func PlainJSON(raw json.RawMessage) (plain json.RawMessage, hidden bool) {
	if !suspicious(string(raw)) && !bytes.Contains(raw, []byte(`\u`)) {
		return raw, false
	}
	var out []byte
	from := 0
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			continue
		}
		end := i + 1
		for end < len(raw) && raw[end] != '"' {
			if raw[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(raw) {
			return raw, false
		}
		var text string
		if json.Unmarshal(raw[i:end+1], &text) == nil {
			if clean, found := Plain(text); found {
				quoted, _ := json.Marshal(clean) // a string always can be
				out = append(append(out, raw[from:i]...), quoted...)
				from, hidden = end+1, true
			}
		}
		i = end
	}
	if !hidden {
		return raw, false
	}
	return append(out, raw[from:]...), true
}
