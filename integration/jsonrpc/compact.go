package jsonrpc

import "bytes"

// Compact returns text, one valid JSON text, without the space between its
// tokens: text itself where there is none, and otherwise buf, whose contents are
// lost, with the rest of it. It is [encoding/json.Compact] for what is known to
// be valid; of what is not, it takes as much space as it takes for such.
func Compact(buf, text []byte) []byte {
	s := scanner{b: text}
	from := 0
	out := buf[:0]
	for i := 0; i < len(text); {
		switch text[i] {
		case '"':
			end := stringEnd(text, i+1)
			if end < 0 {
				i = len(text)
				continue
			}
			i = end
		case ' ', '\t', '\n', '\r':
			out = append(out, text[from:i]...)
			i = s.space(i)
			from = i
		default:
			i++
		}
	}
	if from == 0 {
		return text
	}
	return append(out, text[from:]...)
}

// stringEnd returns the index behind the string whose opening quote is at
// start-1, -1 where it has no end. It goes from quote to quote, which in long
// strings are rarer than escapes are.
func stringEnd(b []byte, start int) int {
	for i := start; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		// A quote behind an odd number of backslashes is a part of the string.
		end, first := i+n, i+n
		for first > start && b[first-1] == '\\' {
			first--
		}
		if (end-first)%2 == 0 {
			return end + 1
		}
		i = end + 1
	}
}
