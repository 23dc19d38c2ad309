package relay

import (
	"strings"

	"github.com/metamcp/metamcp/integration/jsonrpc"
)

// The bounds of what is kept of a line. The id of a request that came as a whole line is
// known again in its answer, however long either is.
const (
	maxName  = 512
	maxValue = bufferSize // of the id and the method
)

// scanner finds the id and the method of a JSON-RPC message that is seen piece
// by piece. What is no such message has neither.
type scanner struct {
	depth   int
	text    bool // in a string
	escaped bool
	value   bool   // at depth 1: behind the colon
	token   []byte // the string or number at depth 1
	keep    bool   // token is being collected
	key     string

	id, method []byte // raw; nil: absent
	ids        int    // members that some reader takes for the id
}

// unclear says that it depends on the reader which id the message has.
func (s *scanner) unclear() bool { return s.ids > 1 || s.ids == 1 && s.id == nil }

// feed takes the next bytes of the line.
func (s *scanner) feed(p []byte) {
	for _, c := range p {
		switch {
		case s.text:
			s.add(c)
			switch {
			case s.escaped:
				s.escaped = false
			case c == '\\':
				s.escaped = true
			case c == '"':
				s.text = false
				if s.depth == 1 && !s.value {
					s.key = string(s.token)
				}
			}
		case c == '"':
			s.text = true
			s.begin()
			s.add(c)
		case c == '{' || c == '[':
			s.depth++
		case c == '}' || c == ']':
			s.depth--
			if s.depth == 0 {
				s.end()
			}
		case s.depth != 1:
		case c == ':':
			s.value, s.keep, s.token = true, false, nil
		case c == ',':
			s.end()
		case c > ' ':
			if !s.keep {
				s.begin()
			}
			s.add(c)
		}
	}
}

// begin collects a token where it may be wanted.
func (s *scanner) begin() {
	if s.depth == 1 && !s.keep && (!s.value || s.key == keyID || s.key == keyMethod) {
		s.keep, s.token = true, make([]byte, 0, 32)
	}
}

func (s *scanner) add(c byte) {
	if s.keep && s.depth == 1 && len(s.token) <= s.most() {
		s.token = append(s.token, c)
	}
}

// most is how long the token at hand may be.
func (s *scanner) most() int {
	if s.value {
		return maxValue
	}
	return maxName
}

// The keys of the members that are looked for.
const (
	keyID     = `"id"`
	keyMethod = `"method"`
)

// end takes the member that is over.
func (s *scanner) end() {
	if likeID(s.key) {
		s.ids++
	}
	if s.value && s.keep && len(s.token) <= maxValue {
		switch s.key {
		case keyID:
			s.id = s.token
		case keyMethod:
			s.method = s.token
		}
	}
	s.value, s.keep, s.token, s.key = false, false, nil, ""
}

// likeID says whether some reader takes a key for that of the id: one that ignores case.
func likeID(key string) bool {
	if len(key) != len(keyID) && strings.IndexByte(key, '\\') < 0 {
		return false
	}
	name, err := jsonrpc.Unquote([]byte(key))
	return err == nil && strings.EqualFold(name, "id")
}
