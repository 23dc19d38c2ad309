package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// IDWindow is how much of the beginning and of the end of a message that is not kept is
// looked at for its id, in bytes.
const IDWindow = 8 << 10

// KeepTail appends a piece of a text to tail, which is the end of what came before, and
// keeps the last [IDWindow] bytes. It changes tail in place.
func KeepTail(tail, piece []byte) []byte {
	piece = piece[max(0, len(piece)-IDWindow):]
	if over := len(tail) + len(piece) - IDWindow; over > 0 {
		tail = append(tail[:0], tail[over:]...)
	}
	return append(tail, piece...)
}

// AnswerID finds the id of a response that cannot be parsed: one that is
// broken, or of which only the first and the last bytes are there. head and
// tail may overlap; each may be empty, or the whole text.
//
// It returns a copy, or nil where the text does not begin like a response
// (an object with a result or an error and no method) or where no id stands
// before its first large or broken member or behind the last one.
func AnswerID(head, tail []byte) json.RawMessage {
	e := readEnds(head, tail)
	if e.method || !e.response {
		return nil
	}
	return e.usableID()
}

// AnsweredID finds the id of the request that a whole text was meant to answer for which
// [Parse] or [OneKind] returned why. Of a text that is no JSON it knows what [AnswerID] does. One that is
// JSON, which why says with a [*MessageError], is an answer where it is an object and no
// request: nothing else has an id. It is a request where it has a method that is neither
// null nor empty, and neither a result nor an error that is not null.
//
// It returns a copy; nil: the text answers nothing.
func AnsweredID(text []byte, why error) json.RawMessage {
	if bad := (*MessageError)(nil); !errors.As(why, &bad) {
		return AnswerID(text, text)
	}
	if !utf8.Valid(text) {
		text = Repair(text) // as whoever parsed it did
	}
	var e ends
	err := Scan(text, func(key, val []byte) error {
		switch string(key) {
		case "id":
			e.id = val
		case "method":
			e.method = string(val) != "null" && string(val) != `""`
		case "result", "error":
			e.response = e.response || isSet(val)
		}
		return nil
	})
	if err != nil || e.method && !e.response {
		return nil
	}
	return e.usableID()
}

// RequestID is [AnswerID] for a request, an object with a method and neither a result
// nor an error. The id is one that may be sent: a string or a number, which is valid.
func RequestID(head, tail []byte) json.RawMessage {
	e := readEnds(head, tail)
	if !e.method || e.response || Valid(e.id) != nil {
		return nil
	}
	return e.usableID()
}

// ends is what is known of a message whose first and last bytes were read.
type ends struct {
	id               []byte
	method, response bool
}

func readEnds(head, tail []byte) (e ends) {
	e.forward(head)
	e.backward(bytes.TrimRight(tail, " \t\r\n"))
	return e
}

// usableID is a copy of the id; nil: it is neither a string nor a number.
func (e *ends) usableID() json.RawMessage {
	if len(e.id) == 0 {
		return nil
	}
	if c := e.id[0]; c != '"' && c != '-' && c-'0' >= 10 {
		return nil
	}
	return bytes.Clone(e.id)
}

func (e *ends) key(key []byte) {
	switch string(key) {
	case "method":
		e.method = true
	case "result", "error":
		e.response = true
	}
}

// forward reads members from the beginning of b up to the first that has no
// end.
func (e *ends) forward(b []byte) {
	s := scanner{b: b}
	i := s.space(0)
	if i >= len(b) || b[i] != '{' {
		return
	}
	for {
		if i = s.space(i + 1); i >= len(b) || b[i] != '"' {
			return
		}
		k := i + 1
		if i = s.skipString(k); i < 0 {
			return
		}
		key := b[k : i-1]
		if i = s.space(i); i >= len(b) || b[i] != ':' {
			return
		}
		e.key(key)
		v := s.space(i + 1)
		// A number at the very end may go on.
		if i = s.skip(v); i < 0 || i >= len(b) {
			return
		}
		if string(key) == "id" {
			e.id = b[v:i]
		}
		if i = s.space(i); i >= len(b) || b[i] != ',' {
			return
		}
	}
}

// backward reads members from the end of b, where the object ends, up to the
// first that has no beginning.
func (e *ends) backward(b []byte) {
	if len(b) == 0 || b[len(b)-1] != '}' {
		return
	}
	for i := len(b) - 1; ; {
		end := spaceBack(b, i)
		start := valueBack(b, end)
		if start < 0 {
			return
		}
		colon := spaceBack(b, start)
		if colon == 0 || b[colon-1] != ':' {
			return
		}
		keyEnd := spaceBack(b, colon-1)
		keyStart := stringBack(b, keyEnd)
		if keyStart < 0 {
			return
		}
		key := b[keyStart+1 : keyEnd-1]
		e.key(key)
		if string(key) == "id" && e.id == nil {
			e.id = b[start:end]
		}
		if i = spaceBack(b, keyStart); i == 0 || b[i-1] != ',' {
			return
		}
		i--
	}
}

// spaceBack returns the end of what stands before the space that ends at end.
func spaceBack(b []byte, end int) int {
	for end > 0 && (b[end-1] == ' ' || b[end-1] == '\t' || b[end-1] == '\n' || b[end-1] == '\r') {
		end--
	}
	return end
}

// valueBack returns where the value begins that ends at end, -1 where it begins
// before b.
func valueBack(b []byte, end int) int {
	if end == 0 {
		return -1
	}
	depth := 0
	for i := end; i > 0; {
		switch b[i-1] {
		case '"':
			if i = stringBack(b, i); i < 0 {
				return -1
			}
		case '}', ']':
			depth++
			i--
		case '{', '[':
			depth--
			i--
		default:
			i--
			if depth > 0 {
				continue
			}
			for i > 0 && !endsScalar[b[i-1]] {
				i--
			}
			if i == 0 || endsScalar[b[i]] {
				return -1 // it may be longer, or is none
			}
		}
		if depth == 0 {
			return i
		}
		if depth < 0 {
			return -1
		}
	}
	return -1
}

// stringBack returns the index of the opening quote of the string whose closing
// one is the last byte before end, -1 where it stands before b.
func stringBack(b []byte, end int) int {
	if end == 0 || b[end-1] != '"' {
		return -1
	}
	for i := end - 2; i >= 0; i-- {
		if b[i] != '"' {
			continue
		}
		slashes := 0
		for slashes < i && b[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes == i {
			return -1 // there may be more of them
		}
		if slashes%2 == 0 {
			return i
		}
	}
	return -1
}
