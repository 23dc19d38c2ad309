package scrub

import "bytes"

// appendFromURLs finds the known secrets that b writes with the escapes of URLs (%2F).
// Each library escapes other characters, in either case: URLSearchParams a tilde and no
// asterisk, encodeURIComponent no bang, Python no slash. So the parts of b that have
// escapes are read, and looked through.
func (s *Set) appendFromURLs(spans []span, b []byte, certain bool) []span {
	if s.known.n == 0 {
		return spans
	}
	return s.appendFromParts(spans, b, certain, deepest)
}

// appendFromParts is appendFromURLs for what was escaped at most so many times.
func (s *Set) appendFromParts(spans []span, b []byte, certain bool, times int) []span {
	var buf [512]byte // most parts are shorter
	for at := nextInURL(b, 0); at >= 0; {
		lo, hi := at, at
		for lo > 0 && inURL(b[lo-1]) {
			lo--
		}
		for hi < len(b) && inURL(b[hi]) {
			hi++
		}
		at = nextInURL(b, hi)
		part := b[lo:hi]
		plain := appendFromURL(buf[:0], part)
		found := s.appendKnownIn(nil, plain, certain)
		if times > 1 {
			found = s.appendFromParts(found, plain, certain, times-1)
		}
		if len(found) == 0 {
			continue
		}
		read, written := 0, 0 // the same place in plain and in part
		place := func(want int) int {
			for ; read < want; read++ {
				if isInURL(part[written:]) {
					written += lengthInURL
				} else {
					written++
				}
			}
			return lo + written
		}
		for _, sp := range merge(found) {
			start := place(sp.start)
			spans = append(spans, span{start, place(sp.end), sp.marker})
		}
	}
	return spans
}

// inURL says whether c may stand in an address. What may not, every library escapes.
func inURL(c byte) bool { return c > ' ' && c != '"' && c != '<' && c != '>' }

// lengthInURL is that of an escape: a percent sign and two digits.
const lengthInURL = 3

func isInURL(b []byte) bool {
	return len(b) >= lengthInURL && b[0] == '%' && isHexDigit(b[1]) && isHexDigit(b[2])
}

// nextInURL is where the next escape stands from i on; -1: there is none.
func nextInURL(b []byte, i int) int {
	for {
		n := bytes.IndexByte(b[i:], '%')
		if n < 0 {
			return -1
		}
		if i += n; isInURL(b[i:]) {
			return i
		}
		i++
	}
}

// appendFromURL appends what is escaped in b. A percent sign that begins no escape
// stays, and so does a plus, which may stand for a blank or for itself.
func appendFromURL(to, b []byte) []byte {
	for {
		i := nextInURL(b, 0)
		if i < 0 {
			return append(to, b...)
		}
		to = append(append(to, b[:i]...), hexDigit(b[i+1])<<4|hexDigit(b[i+2]))
		b = b[i+lengthInURL:]
	}
}

// hexDigit is what a digit stands for that isHexDigit takes.
func hexDigit(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return fold(c) - 'a' + 10
}
