package relay

// maxToken bounds what is kept of the id and the method of a long line.
const maxToken = 512

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
}

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
	if s.depth == 1 && !s.keep {
		s.keep, s.token = true, make([]byte, 0, 32)
	}
}

func (s *scanner) add(c byte) {
	if s.keep && s.depth == 1 && len(s.token) <= maxToken {
		s.token = append(s.token, c)
	}
}

// end takes the member that is over.
func (s *scanner) end() {
	if s.value && s.keep && len(s.token) <= maxToken {
		switch s.key {
		case `"id"`:
			s.id = s.token
		case `"method"`:
			s.method = s.token
		}
	}
	s.value, s.keep, s.token, s.key = false, false, nil, ""
}
