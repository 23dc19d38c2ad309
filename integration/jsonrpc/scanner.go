package jsonrpc

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// MaxDepth is how deep objects and arrays may be nested; a text that goes
// deeper is refused. It is the limit of encoding/json.
const MaxDepth = 10_000

// fault says what is wrong with a text. It is a number, not a string, so that a
// scanner holds nothing that would make its captures escape to the heap.
type fault uint8

const (
	whatEOF fault = iota
	whatValue
	whatLiteral
	whatNumber
	whatKey
	whatColon
	whatObject
	whatArray
	whatEscape
	whatControl
	whatUTF8
	whatDepth
	whatTrailing
	whatString
	whatNoObject
	whatNoArray
)

var faults = [...]string{
	whatEOF:      "the text ends in the middle of a value",
	whatValue:    "a value was expected here",
	whatLiteral:  "this is neither true, false nor null",
	whatNumber:   "this is no number",
	whatKey:      "a quoted key was expected here",
	whatColon:    "a ':' was expected after the key",
	whatObject:   "a ',' or '}' was expected after the member",
	whatArray:    "a ',' or ']' was expected after the element",
	whatEscape:   "this escape sequence does not exist",
	whatControl:  "control characters in strings must be escaped",
	whatUTF8:     "the string is not valid UTF-8",
	whatDepth:    "objects and arrays are nested deeper than 10000 levels",
	whatTrailing: "only one value was expected",
	whatString:   "a quoted string was expected here",
	whatNoObject: "an object was expected here",
	whatNoArray:  "an array was expected here",
}

// A scanner checks one text. Its methods take the index at which to begin and
// return the index behind what they read, or -1 after they have set off and
// what.
type scanner struct {
	b    []byte
	off  int
	what fault
	out  []span // captures of the shape; nil without one
	odd  oddity // of strict shapes
	look *Names // names that are looked for at any depth; nil: none
	seen uint8  // those of look that there are
}

// A span is where a captured value lies in the text; end 0 says that there is
// none. Positions, not slices, so that the captures can stay on the stack.
type span struct{ start, end int }

func (v span) of(b []byte) []byte {
	if v.end == 0 {
		return nil
	}
	return b[v.start:v.end:v.end]
}

func (s *scanner) fail(i int, what fault) int {
	if i >= len(s.b) {
		i, what = len(s.b), whatEOF
	}
	s.off, s.what = i, what
	return -1
}

// err is the error of a failed scan.
func (s *scanner) err() error { return &SyntaxError{Offset: s.off, What: faults[s.what]} }

// text scans one value and the space around it; nothing may follow.
func (s *scanner) text(sh *shape) int {
	i := s.value(s.space(0), 1, sh)
	if i < 0 {
		return -1
	}
	if j := s.space(i); j < len(s.b) {
		return s.fail(j, whatTrailing)
	}
	return i
}

func (s *scanner) space(i int) int {
	for i < len(s.b) {
		switch s.b[i] {
		case ' ', '\t', '\n', '\r':
			i++
		default:
			return i
		}
	}
	return i
}

// value scans the value that begins at i. depth is the level that an object
// or array there would have.
func (s *scanner) value(i, depth int, sh *shape) int {
	if i >= len(s.b) {
		return s.fail(i, whatEOF)
	}
	switch c := s.b[i]; c {
	case '"':
		return s.str(i + 1)
	case '{':
		return s.object(i, depth, sh)
	case '[':
		return s.array(i, depth)
	case 't':
		return s.literal(i, "true")
	case 'f':
		return s.literal(i, "false")
	case 'n':
		return s.literal(i, "null")
	default:
		if c == '-' || c-'0' < 10 {
			return s.number(i)
		}
		return s.fail(i, whatValue)
	}
}

func (s *scanner) object(i, depth int, sh *shape) int {
	if depth > MaxDepth {
		return s.fail(i, whatDepth)
	}
	i = s.space(i + 1)
	if i < len(s.b) && s.b[i] == '}' {
		return i + 1
	}
	var other *names
	for {
		if i >= len(s.b) || s.b[i] != '"' {
			return s.fail(i, whatKey)
		}
		k := i + 1
		if i = s.str(k); i < 0 {
			return -1
		}
		if s.look != nil {
			s.seen |= s.look.of(s.b[k : i-1])
		}
		var m *member
		if sh != nil {
			m = sh.find(s.b[k : i-1])
			if sh.strict {
				s.judge(sh, m, span{k, i - 1}, &other)
			}
			if m == nil && sh.other != 0 && s.out[sh.other].end == 0 {
				s.out[sh.other] = span{k - 1, i}
			}
		}
		if i >= len(s.b) || s.b[i] != ':' {
			if i = s.space(i); i >= len(s.b) || s.b[i] != ':' {
				return s.fail(i, whatColon)
			}
		}
		i = s.space(i + 1)
		if m == nil {
			i = s.value(i, depth+1, nil)
		} else {
			i = s.captured(i, depth+1, m)
		}
		if i < 0 {
			return -1
		}
		i = s.space(i)
		if i >= len(s.b) {
			return s.fail(i, whatEOF)
		}
		switch s.b[i] {
		case ',':
			i = s.space(i + 1)
		case '}':
			return i + 1
		default:
			return s.fail(i, whatObject)
		}
	}
}

// captured scans a value that the shape asks for. What an earlier member of
// the same name left in the captures is cleared first: the last one wins as a
// whole.
func (s *scanner) captured(i, depth int, m *member) int {
	clear(s.out[m.slot:m.end])
	end := s.value(i, depth, m.inner)
	if end >= 0 {
		s.out[m.slot] = span{i, end}
	}
	return end
}

func (s *scanner) array(i, depth int) int {
	if depth > MaxDepth {
		return s.fail(i, whatDepth)
	}
	i = s.space(i + 1)
	if i < len(s.b) && s.b[i] == ']' {
		return i + 1
	}
	for {
		if i = s.value(i, depth+1, nil); i < 0 {
			return -1
		}
		i = s.space(i)
		if i >= len(s.b) {
			return s.fail(i, whatEOF)
		}
		switch s.b[i] {
		case ',':
			i = s.space(i + 1)
		case ']':
			return i + 1
		default:
			return s.fail(i, whatArray)
		}
	}
}

func (s *scanner) literal(i int, word string) int {
	for k := 0; k < len(word); k++ {
		if i+k >= len(s.b) || s.b[i+k] != word[k] {
			return s.fail(i+k, whatLiteral)
		}
	}
	return i + len(word)
}

func (s *scanner) digits(i int) int {
	for i < len(s.b) && s.b[i]-'0' < 10 {
		i++
	}
	return i
}

func (s *scanner) number(i int) int {
	b := s.b
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else {
		j := s.digits(i)
		if j == i {
			return s.fail(i, whatNumber)
		}
		i = j
	}
	if i < len(b) && b[i] == '.' {
		j := s.digits(i + 1)
		if j == i+1 {
			return s.fail(j, whatNumber)
		}
		i = j
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		j := s.digits(i)
		if j == i {
			return s.fail(j, whatNumber)
		}
		i = j
	}
	return i
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special marks, in the high bit of each byte of w, the quotes, backslashes
// and control characters. Only the lowest mark is reliable: a borrow may set
// marks above a true one.
func special(w uint64) uint64 {
	// With one bit turned over, the quote (0x22) is next to the control characters
	// (below 0x20), and nothing else is.
	low := w ^ ones*0x02
	e := w ^ ones*'\\'
	return ((low - ones*0x21) | (e - ones)) &^ w & highs
}

// backslashes marks them as special does.
func backslashes(w uint64) uint64 {
	e := w ^ ones*'\\'
	return (e - ones) &^ e & highs
}

// str scans a string whose opening quote is at i-1.
func (s *scanner) str(i int) int {
	b := s.b
	start := i
	var seen uint64 // all bytes seen, or-ed: a high bit says that UTF-8 must be checked
	for {
		for i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			seen |= w
			if m := special(w); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				goto found
			}
			i += 8
		}
		for i < len(b) && b[i] >= 0x20 && b[i] != '"' && b[i] != '\\' {
			seen |= uint64(b[i])
			i++
		}
		if i >= len(b) {
			return s.fail(i, whatEOF)
		}
	found:
		switch b[i] {
		case '"':
			if seen&highs != 0 && !utf8.Valid(b[start:i]) {
				return s.fail(start+invalidAt(b[start:i]), whatUTF8)
			}
			return i + 1
		case '\\':
			if i+1 < len(b) && simple[b[i+1]] {
				i += 2
			} else if i = s.escape(i); i < 0 {
				return -1
			}
		default:
			return s.fail(i, whatControl)
		}
	}
}

// simple marks the bytes that may follow a backslash alone.
var simple = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// escape scans the escape sequence whose backslash is at i.
func (s *scanner) escape(i int) int {
	b := s.b
	i++
	if i >= len(b) {
		return s.fail(i, whatEOF)
	}
	if simple[b[i]] {
		return i + 1
	}
	if b[i] != 'u' {
		return s.fail(i, whatEscape)
	}
	for end := i + 5; ; {
		if i++; i == end {
			return i
		}
		if i >= len(b) || !isHex(b[i]) {
			return s.fail(i, whatEscape)
		}
	}
}

func isHex(c byte) bool { return c-'0' < 10 || c|0x20 >= 'a' && c|0x20 <= 'f' }

// invalidAt is the index of the first byte of b that is no UTF-8.
func invalidAt(b []byte) int {
	i := 0
	for i < len(b) {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		i += n
	}
	return i
}
