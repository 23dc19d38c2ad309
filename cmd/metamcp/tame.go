package main

import (
	"io"
	"os"
	"strings"
	"unicode"

	"github.com/metamcp/metamcp/messages"
)

// shown is where text of others is printed to: what servers, tools and scripts
// say must not steer a terminal. Files and pipes get every byte as it is.
func shown(out io.Writer) io.Writer {
	if f, ok := out.(*os.File); ok && isTerminal(f) {
		return tame{out}
	}
	return out
}

// tame makes what would steer a terminal visible in it.
type tame struct{ out io.Writer }

// Write implements io.Writer.
func (t tame) Write(p []byte) (int, error) {
	text := strings.Map(visible, strings.ReplaceAll(string(p), "\r\n", "\n"))
	if _, err := io.WriteString(t.out, text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// visible is a character that stands for one which a terminal would obey, or
// which nobody would see.
func visible(r rune) rune {
	const (
		pictures    = 0x2400 // of the control characters, in their order
		deletion    = 0x2421
		joiner, non = '\u200d', '\u200c' // letters and emoji need them
	)
	switch {
	case r == '\n' || r == '\t' || r == joiner || r == non:
		return r
	case r < ' ':
		return pictures + r
	case r == 0x7f:
		return deletion
	case messages.Steers(r):
		return unicode.ReplacementChar
	}
	return r
}

// fileOf is the file that is written to in the end.
func fileOf(out io.Writer) (*os.File, bool) {
	if t, ok := out.(tame); ok {
		out = t.out
	}
	f, ok := out.(*os.File)
	return f, ok
}
