package jsonrpc

import "unicode/utf8"

// Repair returns a copy of text with U+FFFD in the place of each byte that is no
// UTF-8, as the readers of others have it. It has up to three times the bytes.
func Repair(text []byte) []byte {
	out := make([]byte, 0, len(text)+len(text)/4)
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		out = utf8.AppendRune(out, r)
		text = text[n:]
	}
	return out
}
