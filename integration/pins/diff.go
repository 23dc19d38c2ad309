package pins

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/metamcp/metamcp/messages"
)

// Visible writes what nobody sees as its code point: <U+200B>.
func Visible(text string) string {
	if isPlain(text) {
		return strings.ReplaceAll(text, "\r", "<U+000D>")
	}
	var b strings.Builder
	before := ' '
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD"):
			fmt.Fprintf(&b, "<%02X>", text[i])
		case messages.Hidden(r, before):
			fmt.Fprintf(&b, "<U+%04X>", r)
		default:
			b.WriteRune(r)
		}
		before = r
	}
	return b.String()
}

// Diff shows a difference to a person, as a unified diff of both definitions in
// which nothing is hidden. It ends with a line feed.
func (d *Difference) Diff(server string) string {
	name := Visible(server + "/" + d.Tool)
	old, now := show(d.Old.text()), show(d.New.text())
	if now == nil || d.Old != nil && old == nil {
		was := "nothing"
		if d.Old != nil {
			was = d.Old.Short()
		}
		return fmt.Sprintf("--- %s accepted\n+++ %s now\n(too large to be kept; hash %s, was %s)\n", name, name, d.New.Short(), was)
	}
	text := string(diff.Diff(name+" accepted", old, name+" now", now))
	// The first line repeats the two names.
	if _, rest, ok := strings.Cut(text, "\n"); ok && strings.HasPrefix(text, "diff ") {
		text = rest
	}
	return text
}

// show lays a definition out for people: each line of a description is a line.
func show(definition json.RawMessage) []byte {
	if definition == nil {
		return nil
	}
	c := &canon{in: definition}
	c.space()
	if c.peek() != '{' {
		return []byte(Visible(string(definition)) + "\n")
	}
	members := c.members(func(string) mode { return data })
	slices.SortStableFunc(members, func(a, b member) int { return partOf(a.name) - partOf(b.name) })
	var b bytes.Buffer
	for _, m := range members {
		if m.value[0] != '"' {
			fmt.Fprintf(&b, "%s: %s\n", Visible(m.name), indented(m.value))
			continue
		}
		fmt.Fprintf(&b, "%s:\n", Visible(m.name))
		_, text := (&canon{in: m.value}).text()
		for line := range strings.SplitSeq(text, "\n") {
			fmt.Fprintf(&b, "  %s\n", Visible(line))
		}
	}
	return b.Bytes()
}

// indented is JSON with a line for each value, and nothing hidden in it.
func indented(raw []byte) string {
	var v bytes.Buffer
	if json.Indent(&v, raw, "", "  ") != nil {
		return Visible(string(raw))
	}
	return Visible(v.String())
}
