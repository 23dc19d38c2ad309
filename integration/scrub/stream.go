package scrub

import "bytes"

// Stream takes secrets out of lines that follow each other, also those that go
// over several lines: private keys. It is for one goroutine.
type Stream struct {
	secrets func() *Set
	left    int // lines that may still be of a key
}

// NewStream returns a Stream with the secrets that are known at each line.
func NewStream(secrets func() *Set) *Stream { return &Stream{secrets: secrets} }

// Line is Bytes for the next line, without its end.
func (s *Stream) Line(line []byte) []byte {
	set := s.secrets()
	if set == nil {
		return line
	}
	if s.follow(line) {
		return []byte(marker(kindPrivateKey))
	}
	return set.Bytes(line)
}

// Skip takes lines that nobody will see, with their ends: those after them are
// looked at as if [Stream.Line] had been called for each, at a fraction of its cost.
func (s *Stream) Skip(lines []byte) {
	if s.secrets() == nil {
		return
	}
	for len(lines) > 0 {
		if s.left == 0 {
			head := bytes.Index(lines, []byte(pemStart))
			if head < 0 {
				return
			}
			lines = lines[bytes.LastIndexByte(lines[:head], '\n')+1:]
		}
		line, rest, _ := bytes.Cut(lines, []byte{'\n'})
		s.follow(line)
		lines = rest
	}
}

// follow says whether line belongs to a key that began before it, and keeps count
// of where the next one stands.
func (s *Stream) follow(line []byte) (ofKey bool) {
	const longestKey = 200 // lines; one of 8,192 bits has 100
	if s.left > 0 {
		s.left--
		switch {
		case bytes.Contains(line, []byte("-----END ")):
			s.left = 0
			return true
		case isKeyLine(line):
			return true
		}
		s.left = 0
	}
	if head := bytes.Index(line, []byte(pemStart)); head >= 0 {
		_, isKey := privateKey(line, head)
		if isKey && !bytes.Contains(line[head:], []byte("-----END ")) {
			s.left = longestKey
		}
	}
	return false
}

// isKeyLine says whether a line, behind what a log may put before it, is base64
// or a header, as they stand within a key.
func isKeyLine(line []byte) bool {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || bytes.Contains(line, []byte("Proc-Type:")) || bytes.Contains(line, []byte("DEK-Info:")) {
		return true
	}
	const least = 16 // of what stands behind other words
	last := line[bytes.LastIndexByte(line, ' ')+1:]
	return isBase64(last) && (len(last) == len(line) || len(last) >= least || last[len(last)-1] == '=')
}
