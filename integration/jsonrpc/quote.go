package jsonrpc

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// Unquote returns the string that raw, a JSON string with its quotes, stands
// for. Lone surrogates become U+FFFD. Anything but one whole strict JSON
// string is a [*SyntaxError].
func Unquote(raw []byte) (string, error) {
	s := scanner{b: raw}
	if len(raw) == 0 || raw[0] != '"' {
		s.fail(0, whatString)
		return "", s.err()
	}
	i := s.str(1)
	if i >= 0 && i < len(raw) {
		i = s.fail(i, whatTrailing)
	}
	if i < 0 {
		return "", s.err()
	}
	body := raw[1 : i-1]
	if !hasEscape(body) {
		return string(body), nil
	}
	return string(unescape(nil, body)), nil
}

func hasEscape(body []byte) bool { return bytes.IndexByte(body, '\\') >= 0 }

// unescape appends to dst what body, the valid text between two quotes, stands
// for. That is never longer than body, which must not be dst.
func unescape(dst, body []byte) []byte {
	const word = 8 // bytes that are copied at once, also beyond what is wanted
	n := len(dst)
	dst = slices.Grow(dst, len(body)+word)
	out := dst[:cap(dst)]
	for i := 0; ; {
		for ; i+word <= len(body); i, n = i+word, n+word {
			w := binary.LittleEndian.Uint64(body[i:])
			binary.LittleEndian.PutUint64(out[n:], w)
			if m := backslashes(w); m != 0 {
				at := bits.TrailingZeros64(m) >> 3
				i, n = i+at, n+at
				break
			}
		}
		for i < len(body) && body[i] != '\\' {
			out[n] = body[i]
			i, n = i+1, n+1
		}
		if i+1 >= len(body) {
			return append(out[:n], body[min(i, len(body)):]...)
		}
		c := body[i+1]
		i += 2
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r, used, ok := unicodeAt(body[i:])
			i, n = i+used, n+utf8.EncodeRune(out[n:], r)
			if !ok {
				return out[:n]
			}
			continue
		}
		out[n] = c
		n++
	}
}

// unicodeAt reads what stands behind a backslash and a u, and says how long that is:
// four digits, and the other half of a pair of surrogates. Half a pair is U+FFFD, and so
// is what has no digits, where ok is false.
func unicodeAt(body []byte) (r rune, used int, ok bool) {
	const digits, other = 4, 6
	r, ok = hex4(body)
	if !ok {
		return utf8.RuneError, 0, false
	}
	if !utf16.IsSurrogate(r) {
		return r, digits, true
	}
	if rest := body[digits:]; len(rest) >= other && rest[0] == '\\' && rest[1] == 'u' {
		if low, ok := hex4(rest[2:]); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return pair, digits + other, true
			}
		}
	}
	return utf8.RuneError, digits, true
}

// AppendUnescaped appends to dst what body, the text between the quotes of a
// valid JSON string, stands for. Lone surrogates become U+FFFD.
func AppendUnescaped(dst, body []byte) []byte { return unescape(dst, body) }

// hex4 reads the four hexadecimal digits at the start of b.
func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c-'0' < 10:
			r = r<<4 | rune(c-'0')
		case isHex(c):
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

const hexDigits = "0123456789abcdef"

// AppendQuote appends s to dst as a JSON string with its quotes. Only what
// must be escaped is: quotes, backslashes and control characters. Bytes that
// are no UTF-8 become U+FFFD.
func AppendQuote(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		if i+8 <= len(s) {
			w := load64(s[i : i+8])
			m := special(w) | w&highs
			if m == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(m) >> 3
		}
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= 0x20 && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, c)
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			dst = append(dst, s[start:i]...)
			dst = utf8.AppendRune(dst, utf8.RuneError)
			start = i + n
		}
		i += n
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func load64(s string) uint64 {
	var b [8]byte
	copy(b[:], s)
	return binary.LittleEndian.Uint64(b[:])
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}
