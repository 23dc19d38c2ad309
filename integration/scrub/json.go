package scrub

import (
	"bytes"
	"encoding/json"
)

// JSON is Bytes for a JSON text: a secret is found in whatever way a string
// writes it, with escapes that nobody else would use for it too. raw stays as
// it is; what is returned is JSON where raw is.
func (s *Set) JSON(raw json.RawMessage) json.RawMessage {
	if s == nil {
		return raw
	}
	var out []byte
	rest := []byte(raw)
	for {
		start := bytes.IndexByte(rest, '"')
		if start < 0 {
			break
		}
		end := literalEnd(rest, start)
		if end < 0 {
			break
		}
		literal := rest[start:end]
		out = append(out, rest[:start]...)
		out = append(out, s.literal(literal)...)
		rest = rest[end:]
	}
	return s.Bytes(append(out, rest...))
}

// literal is one string without secrets.
func (s *Set) literal(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted // it stands as it is, and Bytes finds what is in it
	}
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return quoted
	}
	clean := s.Text(text)
	if clean == text {
		return quoted
	}
	again, err := json.Marshal(clean)
	if err != nil {
		return quoted
	}
	return again
}

// literalEnd returns where the string that begins at start ends; -1: nowhere.
func literalEnd(b []byte, start int) int {
	for i := start + 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}
