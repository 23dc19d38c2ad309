package rank

import (
	"encoding/json"
	"strings"
)

// maxDepth is how deep a schema is read.
const maxDepth = 128

// Params returns the top-level properties of a JSON schema, in order: the
// first 64, and of each the first 1 KiB of its description. It takes anything,
// and returns what could be read before something that is not JSON.
//
// It is a scanner of its own, since a start with thousands of tools
// reads all their schemas and needs next to nothing of them.
func Params(schema json.RawMessage) []Param {
	s := scanner{text: schema}
	var params []Param
	s.object(func(key string) {
		if key != "properties" || params != nil {
			s.skip(0)
			return
		}
		s.object(func(name string) {
			p := Param{Name: cut(name, maxName)}
			s.object(func(key string) {
				if s.space(); key == "description" && s.peek() == '"' {
					text, _ := s.str()
					p.Description = cut(text, maxParamText)
					return
				}
				s.skip(0)
			})
			if len(params) < maxParams {
				params = append(params, p)
			}
		})
	})
	return params
}

// A scanner walks JSON text. After an error it is at the end of the text.
type scanner struct {
	text []byte
	at   int
}

func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

func (s *scanner) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

func (s *scanner) fail() { s.at = len(s.text) }

// object calls member for each member of the object that comes next; it has
// to read the value. What is no object is skipped.
func (s *scanner) object(member func(key string)) {
	if s.space(); s.peek() != '{' {
		s.skip(0)
		return
	}
	s.at++
	for {
		if s.space(); s.peek() != '"' {
			if s.peek() == '}' {
				s.at++
			} else {
				s.fail()
			}
			return
		}
		key, ok := s.str()
		if s.space(); !ok || s.peek() != ':' {
			s.fail()
			return
		}
		s.at++
		member(key)
		switch s.space(); s.peek() {
		case ',':
			s.at++
		case '}':
			s.at++
			return
		default:
			s.fail()
			return
		}
	}
}

// str reads the string that begins here.
func (s *scanner) str() (string, bool) {
	start, escaped := s.at, false
	for s.at++; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '\\':
			escaped = true
			s.at++
		case '"':
			s.at++
			if !escaped {
				return string(s.text[start+1 : s.at-1]), true
			}
			var text string
			if json.Unmarshal(s.text[start:s.at], &text) != nil {
				return "", false
			}
			return text, true
		}
	}
	s.fail()
	return "", false
}

// skip passes one value.
func (s *scanner) skip(depth int) {
	s.space()
	switch c := s.peek(); c {
	case '"':
		for s.at++; s.at < len(s.text); s.at++ {
			switch s.text[s.at] {
			case '\\':
				s.at++
			case '"':
				s.at++
				return
			}
		}
		s.fail()
	case '{', '[':
		if depth == maxDepth {
			s.fail()
			return
		}
		for s.at++; s.at < len(s.text); {
			switch s.space(); s.peek() {
			case '}', ']':
				s.at++
				return
			case ',', ':':
				s.at++
			default:
				s.skip(depth + 1)
			}
		}
		s.fail()
	default:
		start := s.at
		for s.at < len(s.text) && strings.IndexByte(" \t\r\n,:]}", s.text[s.at]) < 0 {
			s.at++
		}
		if s.at == start {
			s.fail()
		}
	}
}
