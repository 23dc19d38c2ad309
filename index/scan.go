package index

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// The functions of this file walk JSON that is known to be valid and slice it
// without copying. On invalid input they may answer nonsense, but they stay
// within the slice and end: -1 stands for "no end found".

// skipSpace returns the index of the first byte at or after i that is not
// JSON white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// stringEnd returns the index after the closing quote of the string whose
// opening quote is b[i].
func stringEnd(b []byte, i int) int {
	start := i + 1
	i = start
	for {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		if b[i-1] != '\\' {
			return i + 1
		}
		// An odd run of backslashes escapes the quote.
		run := 0
		for j := i - 1; j >= start && b[j] == '\\'; j-- {
			run++
		}
		i++
		if run%2 == 0 {
			return i
		}
	}
}

// valueEnd returns the index after the value that starts at b[i], which is
// not white space.
func valueEnd(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			if i = stringEnd(b, i); i < 0 {
				return -1
			}
			if depth == 0 {
				return i
			}
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
			if depth <= 0 {
				return i
			}
		case ',', ':', ' ', '\n', '\t', '\r':
			i++
		default:
			i = scalarEnd(b, i)
			if depth == 0 {
				return i
			}
		}
	}
	return -1
}

// scalarEnd returns the index after the number or literal that starts at b[i].
func scalarEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case ',', ']', '}', ':', '"', '[', '{', ' ', '\n', '\t', '\r':
			return i
		}
	}
	return i
}

// members calls yield with each member of the object b, the key with its
// quotes, in order. It reports whether b is an object.
func members(b []byte, yield func(key, value []byte)) bool {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '{' {
		return false
	}
	for i = skipSpace(b, i+1); i < len(b) && b[i] == '"'; i = skipSpace(b, i+1) {
		end := stringEnd(b, i)
		if end < 0 {
			return true
		}
		key := b[i:end:end]
		i = skipSpace(b, end)
		i = skipSpace(b, i+1) // past the colon
		if i >= len(b) {
			return true
		}
		if end = valueEnd(b, i); end < 0 {
			return true
		}
		yield(key, b[i:end:end])
		i = skipSpace(b, end)
		if i >= len(b) || b[i] != ',' {
			return true
		}
	}
	return true
}

// elements calls yield with each element of the array b, in order. It reports
// whether b is an array.
func elements(b []byte, yield func(value []byte)) bool {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '[' {
		return false
	}
	for i = skipSpace(b, i+1); i < len(b) && b[i] != ']'; i = skipSpace(b, i+1) {
		end := valueEnd(b, i)
		if end < 0 {
			return true
		}
		yield(b[i:end:end])
		i = skipSpace(b, end)
		if i >= len(b) || b[i] != ',' {
			return true
		}
	}
	return true
}

// text decodes a JSON string; anything else is not ok.
func text(raw []byte) (s string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	inside := raw[1 : len(raw)-1]
	if bytes.IndexByte(inside, '\\') < 0 && utf8.Valid(inside) {
		return string(inside), true
	}
	if json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}
