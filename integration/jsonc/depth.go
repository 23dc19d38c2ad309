// Package jsonc is what readers of JSON with comments share before the parser
// sees a text.
package jsonc

import "bytes"

// TooDeep returns the offset at which nesting passes most levels, or -1: the
// parser recurses, so such a text must not reach it. It steps over strings and
// comments, and judges nothing else.
func TooDeep(text []byte, most int) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			if depth++; depth > most {
				return i
			}
		case '}', ']':
			depth--
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '/':
			n := commentLength(text[i:])
			if n < 0 {
				return -1
			}
			i += max(n-1, 0)
		}
	}
	return -1
}

// commentLength returns the length of the comment that text starts with: 0 if
// it starts with none, -1 if it does not end.
func commentLength(text []byte) int {
	end := "\n"
	switch {
	case bytes.HasPrefix(text, []byte("/*")):
		end = "*/"
	case !bytes.HasPrefix(text, []byte("//")):
		return 0
	}
	n := bytes.Index(text[2:], []byte(end))
	if n < 0 {
		return -1
	}
	return 2 + n + len(end)
}
