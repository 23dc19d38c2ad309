package index

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"unicode/utf8"
)

// accepts says that args, one valid JSON text, is certainly valid under the
// schema. False means no more than "not certain". It does not allocate.
func (p *plain) accepts(args []byte) bool {
	i := skipSpace(args, 0)
	if i >= len(args) {
		return false
	}
	end := p.value(args, i)
	return end >= 0 && skipSpace(args, end) == len(args)
}

// value returns the index after the value at b[i] where it is certainly
// valid, otherwise -1. A nil schema takes everything.
func (p *plain) value(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	if p == nil {
		return valueEnd(b, i)
	}
	switch b[i] {
	case '"':
		if p.kinds&kindString == 0 {
			return -1
		}
		return p.str(b, i)
	case '{':
		if p.kinds&kindObject == 0 {
			return -1
		}
		return p.object(b, i)
	case '[':
		if p.kinds&kindArray == 0 {
			return -1
		}
		return p.array(b, i)
	case 't', 'f':
		if p.kinds&kindBoolean == 0 {
			return -1
		}
		return scalarEnd(b, i)
	case 'n':
		if p.kinds&kindNull == 0 {
			return -1
		}
		return scalarEnd(b, i)
	default:
		return p.number(b, i)
	}
}

func (p *plain) str(b []byte, i int) int {
	end := stringEnd(b, i)
	if end < 0 || (p.enum == nil && p.minLen == 0 && p.maxLen >= len(b)) {
		return end
	}
	s := b[i+1 : end-1]
	if p.minLen > 0 || p.maxLen < len(s) {
		// An escape is one code point or half a one: let the judge count.
		if bytes.IndexByte(s, '\\') >= 0 {
			return -1
		}
		if n := utf8.RuneCount(s); n < p.minLen || n > p.maxLen {
			return -1
		}
	}
	if p.enum == nil {
		return end
	}
	if _, listed := slices.BinarySearchFunc(p.enum, s, func(e string, s []byte) int { return cmp.Compare(e, string(s)) }); !listed {
		return -1
	}
	// Equal bytes are the same string only without an escape; a listed string
	// with a backslash never gets here as itself.
	if bytes.IndexByte(s, '\\') >= 0 {
		return -1
	}
	return end
}

func (p *plain) number(b []byte, i int) int {
	end := scalarEnd(b, i)
	integer := true
	for _, c := range b[i:end] {
		if (c < '0' || c > '9') && c != '-' {
			integer = false
			break
		}
	}
	switch {
	case integer && p.kinds&(kindInteger|kindNumber) == 0:
		return -1
	case !integer && p.kinds&kindNumber == 0:
		return -1 // 1.0 is an integer too, which is for the judge to say
	case !p.bounded:
		return end
	case !integer || end-i > 18:
		return -1
	}
	n, err := strconv.ParseInt(string(b[i:end]), 10, 64)
	if err != nil || n < p.min || n > p.max {
		return -1
	}
	return end
}

func (p *plain) array(b []byte, i int) int {
	n := 0
	for i = skipSpace(b, i+1); i < len(b) && b[i] != ']'; i = skipSpace(b, i+1) {
		if i = p.items.value(b, i); i < 0 {
			return -1
		}
		n++
		if i = skipSpace(b, i); i >= len(b) || b[i] != ',' {
			break
		}
	}
	if i >= len(b) || b[i] != ']' || n < p.minItems || n > p.maxItems {
		return -1
	}
	return i + 1
}

func (p *plain) object(b []byte, i int) int {
	var seen uint64
	next := 0 // clients mostly keep the order of the schema
	for i = skipSpace(b, i+1); i < len(b) && b[i] == '"'; i = skipSpace(b, i+1) {
		end := stringEnd(b, i)
		if end < 0 {
			return -1
		}
		key := b[i+1 : end-1]
		if bytes.IndexByte(key, '\\') >= 0 {
			return -1
		}
		at := p.find(key, next)
		var schema *plain
		if at >= 0 {
			if seen&(1<<at) != 0 {
				return -1 // a repeated key: decoders differ on which one counts
			}
			seen |= 1 << at
			schema = p.props[at].schema
			next = at + 1
		} else if p.closed {
			return -1
		}
		if i = skipSpace(b, end); i >= len(b) || b[i] != ':' {
			return -1
		}
		if i = schema.value(b, skipSpace(b, i+1)); i < 0 {
			return -1
		}
		if i = skipSpace(b, i); i >= len(b) || b[i] != ',' {
			break
		}
	}
	if i >= len(b) || b[i] != '}' || p.required&^seen != 0 {
		return -1
	}
	return i + 1
}

// find returns the index of the member named key, looking at hint first, or -1.
func (p *plain) find(key []byte, hint int) int {
	if hint < len(p.props) && p.props[hint].name == string(key) {
		return hint
	}
	for i := range p.props {
		if p.props[i].name == string(key) {
			return i
		}
	}
	return -1
}
