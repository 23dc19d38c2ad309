package jsonrpc

// Validator is [Valid] for a text that comes in pieces, none of which it keeps. The
// zero value is ready for the first one. It is for one goroutine.
type Validator struct {
	state state
	open  []byte // the objects and arrays around, each by the byte that opened it
	key   bool   // the string is a key
	left  int    // bytes of an escape or of a character that are still to come
	// low and high are between what the next byte of a character must be.
	low, high byte
	word      string // what is still to come of a literal
}

// state is what a validator is in the middle of, or what it expects.
type state uint8

const (
	wantValue   state = iota
	wantElement       // or the end of the array
	wantMember        // or the end of the object
	wantKey
	wantColon
	wantNext // behind a value
	inString
	inEscape
	inHex
	inLiteral
	afterMinus
	afterZero
	inInteger
	afterPoint
	inFraction
	afterE
	afterSign
	inExponent
	broken
)

// Feed takes the next piece.
func (v *Validator) Feed(piece []byte) {
	for i := 0; i < len(piece) && v.state != broken; i++ {
		if v.state == inString && v.left == 0 {
			for i < len(piece) && piece[i] >= 0x20 && piece[i] < 0x80 && piece[i] != '"' && piece[i] != '\\' {
				i++
			}
			if i == len(piece) {
				return
			}
		}
		v.take(piece[i])
	}
}

// Valid says whether the pieces so far are one strict JSON text, by the rules of this
// package.
func (v *Validator) Valid() bool {
	if len(v.open) > 0 {
		return false
	}
	switch v.state {
	case wantNext, afterZero, inInteger, inFraction, inExponent:
		return true
	default:
		return false
	}
}

func (v *Validator) take(c byte) {
	switch v.state {
	case inString:
		v.character(c)
	case inEscape:
		if c == 'u' {
			v.state, v.left = inHex, 4
			return
		}
		v.must(simple[c], inString)
	case inHex:
		next := inHex
		if v.left--; v.left == 0 {
			next = inString
		}
		v.must(isHex(c), next)
	case inLiteral:
		next := inLiteral
		if len(v.word) == 1 {
			next = wantNext
		}
		v.must(c == v.word[0], next)
		v.word = v.word[1:]
	case afterMinus, afterZero, inInteger, afterPoint, inFraction, afterE, afterSign, inExponent:
		v.number(c)
	default:
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			v.token(c)
		}
	}
}

// must goes on to next, if what it depends on is so.
func (v *Validator) must(is bool, next state) {
	if v.state = next; !is {
		v.state = broken
	}
}

// token takes a byte that is no space, between tokens.
func (v *Validator) token(c byte) {
	switch v.state {
	case wantElement:
		if c == ']' {
			v.shut(c)
			return
		}
		v.value(c)
	case wantMember:
		if c == '}' {
			v.shut(c)
			return
		}
		v.key = true
		v.must(c == '"', inString)
	case wantKey:
		v.key = true
		v.must(c == '"', inString)
	case wantColon:
		v.must(c == ':', wantValue)
	case wantNext:
		switch {
		case c != ',':
			v.shut(c)
		case len(v.open) > 0 && v.open[len(v.open)-1] == '{':
			v.state = wantKey
		default:
			v.must(len(v.open) > 0, wantValue)
		}
	default:
		v.value(c)
	}
}

// value takes the first byte of a value.
func (v *Validator) value(c byte) {
	switch c {
	case '"':
		v.state, v.key = inString, false
	case '{':
		v.must(len(v.open) < MaxDepth, wantMember)
		v.open = append(v.open, c)
	case '[':
		v.must(len(v.open) < MaxDepth, wantElement)
		v.open = append(v.open, c)
	case 't':
		v.state, v.word = inLiteral, "true"[1:]
	case 'f':
		v.state, v.word = inLiteral, "false"[1:]
	case 'n':
		v.state, v.word = inLiteral, "null"[1:]
	case '-':
		v.state = afterMinus
	case '0':
		v.state = afterZero
	default:
		v.must(c-'0' < 10, inInteger)
	}
}

// shut takes the end of what was opened last, if it is that.
func (v *Validator) shut(c byte) {
	last := len(v.open) - 1
	if last < 0 || c != v.open[last]+2 { // ']' and '}' are two behind what they end
		v.state = broken
		return
	}
	v.open, v.state = v.open[:last], wantNext
}

// character takes a byte of a string.
func (v *Validator) character(c byte) {
	if v.left > 0 {
		v.left--
		v.must(v.low <= c && c <= v.high, inString)
		v.low, v.high = 0x80, 0xBF
		return
	}
	switch {
	case c == '"':
		v.state = wantNext
		if v.key {
			v.state = wantColon
		}
	case c == '\\':
		v.state = inEscape
	case c < 0x80:
		v.must(c >= 0x20, inString)
	default:
		v.left, v.low, v.high = following(c)
		v.must(v.left > 0, inString)
	}
}

// following is how many bytes follow the first one of a character that is not ASCII,
// and between what the next one is; 0: no character begins like that.
func following(c byte) (left int, low, high byte) {
	low, high = 0x80, 0xBF
	switch {
	case c < 0xC2 || c > 0xF4:
		return 0, 0, 0
	case c < 0xE0:
		return 1, low, high
	case c < 0xF0:
		left = 2
	default:
		left = 3
	}
	switch c { // no longer than it must be, no surrogate, and none above U+10FFFF
	case 0xE0:
		low = 0xA0
	case 0xED:
		high = 0x9F
	case 0xF0:
		low = 0x90
	case 0xF4:
		high = 0x8F
	}
	return left, low, high
}

// number takes a byte of a number, or the one behind it.
func (v *Validator) number(c byte) {
	digit := c-'0' < 10
	switch v.state {
	case afterMinus:
		next := inInteger
		if c == '0' {
			next = afterZero
		}
		v.must(digit, next)
	case afterPoint:
		v.must(digit, inFraction)
	case afterE:
		if c == '+' || c == '-' {
			v.state = afterSign
			return
		}
		v.must(digit, inExponent)
	case afterSign:
		v.must(digit, inExponent)
	default:
		v.digits(c, digit)
	}
}

// digits takes a byte behind one with which a number may end.
func (v *Validator) digits(c byte, digit bool) {
	whole := v.state == afterZero || v.state == inInteger
	switch {
	case digit && v.state != afterZero:
	case c == '.' && whole:
		v.state = afterPoint
	case c|0x20 == 'e' && v.state != inExponent:
		v.state = afterE
	default:
		v.state = wantNext
		v.take(c)
	}
}
