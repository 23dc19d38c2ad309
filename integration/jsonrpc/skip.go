package jsonrpc

import (
	"encoding/binary"
	"math/bits"
)

// skip returns the index behind the value at i without checking more of it
// than it must to find its end.
func (s *scanner) skip(i int) int {
	b := s.b
	if i >= len(b) {
		return s.fail(i, whatEOF)
	}
	switch b[i] {
	case '"':
		return s.skipString(i + 1)
	case '{', '[':
	default:
		start := i
		for i < len(b) && !endsScalar[b[i]] {
			i++
		}
		if i == start {
			return s.fail(i, whatValue)
		}
		return i
	}
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			if i = s.skipString(i + 1); i < 0 {
				return -1
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return s.fail(i, whatEOF)
}

// endsScalar marks the bytes that cannot be part of a number or a literal.
var endsScalar = [256]bool{
	' ': true, '\t': true, '\n': true, '\r': true, ',': true, ':': true,
	']': true, '}': true, '[': true, '{': true, '"': true,
}

// skipString returns the index behind the string whose opening quote is at
// i-1.
func (s *scanner) skipString(i int) int {
	b := s.b
	for {
		if i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			q := w ^ ones*'"'
			e := w ^ ones*'\\'
			m := ((q-ones)&^q | (e-ones)&^e) & highs
			if m == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(m) >> 3
		}
		if i >= len(b) {
			return s.fail(i, whatEOF)
		}
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			i += 2
		default:
			i++
		}
	}
}
