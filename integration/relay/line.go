package relay

import (
	"bytes"
	"io"
)

// bufferSize is the longest line that is taken as a whole.
const bufferSize = 64 << 10

// lineReader cuts a stream into lines, and those that are longer than its
// buffer into pieces. It is used by one goroutine.
type lineReader struct {
	r        io.Reader
	buf      []byte
	from, to int
	err      error
	inside   bool // a long line has begun
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: r, buf: make([]byte, bufferSize)}
}

// piece is a line with its line feed, or a part of one that is too long. Its
// bytes are the reader's, until the next piece.
type piece struct {
	text []byte
	last bool
}

// next returns the next piece. What stands behind the last line feed is a line
// too, and gets one. The error is that of the stream, or io.EOF.
func (l *lineReader) next() (piece, error) {
	for {
		chunk := l.buf[l.from:l.to]
		if i := bytes.IndexByte(chunk, '\n'); i >= 0 {
			l.from += i + 1
			return l.cut(chunk[:i+1], true), nil
		}
		switch {
		case l.err != nil && len(chunk) == 0 && !l.inside:
			return piece{}, l.err
		case l.err != nil:
			l.from = l.to
			return l.cut(append(chunk[:len(chunk):len(chunk)], '\n'), true), nil //nolint:nilerr // it is told once nothing is left
		case len(chunk) == len(l.buf):
			l.from = l.to
			return l.cut(chunk, false), nil
		}
		if l.from > 0 {
			l.to = copy(l.buf, chunk)
			l.from = 0
		}
		var n int
		n, l.err = l.r.Read(l.buf[l.to:])
		l.to += n
	}
}

func (l *lineReader) cut(text []byte, last bool) piece {
	l.inside = !last
	return piece{text: text, last: last}
}
