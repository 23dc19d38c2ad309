package front

import (
	"bytes"
	"io"

	"github.com/metamcp/metamcp/integration/jsonrpc"
)

// MaxLine is the longest line that a client may send, in bytes.
const MaxLine = 64 << 20

// largeLine is the size from which a message is checked on a goroutine of its
// own, and the read buffer's size.
const largeLine = 64 << 10

// maxHint bounds what is made ready for the next large line.
const maxHint = 4 << 20

// tooLongError says that a line was longer than the reader's limit; the next
// line can be read. The line is not kept, but its ends are, where its id stands.
type tooLongError struct{ head, tail []byte }

// Error implements error.
func (*tooLongError) Error() string { return "line too long" }

// add takes the next piece of the line.
func (e *tooLongError) add(piece []byte) {
	if room := jsonrpc.IDWindow - len(e.head); room > 0 {
		e.head = append(e.head, piece[:min(room, len(piece))]...)
	}
	e.tail = jsonrpc.KeepTail(e.tail, piece)
}

func tooLong(pieces ...[]byte) *tooLongError {
	e := new(tooLongError)
	for _, p := range pieces {
		e.add(p)
	}
	return e
}

// lineReader cuts a stream into lines. It is used by one goroutine.
type lineReader struct {
	r       io.Reader
	limit   int
	buf     []byte
	from    int // unread bytes of buf are buf[from:to]
	to      int
	err     error  // of the last read, given out once the buffer is empty
	hint    int    // length of the last large line
	onLarge func() // called once, when the first large line is seen; may be nil
}

func newLineReader(r io.Reader, limit int, onLarge func()) *lineReader {
	return &lineReader{r: r, limit: limit, buf: make([]byte, largeLine), onLarge: onLarge}
}

// next returns the next line without its line feed. The line belongs to the
// caller. It returns a tooLongError for a line that was skipped because it is too
// long, and io.EOF or another error of the stream at its end. What stands
// behind the last line feed is a line too.
func (l *lineReader) next() ([]byte, error) {
	var long []byte // the line so far, once it is longer than the buffer
	for {
		chunk := l.buf[l.from:l.to]
		if i := bytes.IndexByte(chunk, '\n'); i >= 0 {
			l.from += i + 1
			if len(long)+i > l.limit {
				return nil, tooLong(long, chunk[:i])
			}
			if long == nil {
				return bytes.Clone(chunk[:i]), nil
			}
			l.hint = min(len(long)+i, maxHint)
			return append(long, chunk[:i]...), nil
		}
		if l.err != nil {
			l.from = l.to
			if len(long)+len(chunk) == 0 {
				return nil, l.err
			}
			if len(long)+len(chunk) > l.limit {
				return nil, tooLong(long, chunk)
			}
			return append(long, chunk...), nil
		}
		if l.to-l.from < len(l.buf) {
			l.fill()
			continue
		}
		// The buffer is full of one line: collect it elsewhere.
		if long == nil {
			if l.onLarge != nil {
				l.onLarge()
				l.onLarge = nil
			}
			long = make([]byte, 0, min(max(4*len(l.buf), l.hint+l.hint/8), l.limit+len(l.buf)))
		}
		long = append(long, chunk...)
		l.from, l.to = 0, 0
		var over bool
		if long, over = l.collect(long); over {
			return nil, l.skip(long)
		}
	}
}

// ahead says whether at least n whole lines were read already.
func (l *lineReader) ahead(n int) bool {
	rest := l.buf[l.from:l.to]
	for ; n > 0; n-- {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			return false
		}
		rest = rest[i+1:]
	}
	return true
}

// fill reads more behind the bytes that are in the buffer.
func (l *lineReader) fill() {
	if l.from > 0 {
		l.to = copy(l.buf, l.buf[l.from:l.to])
		l.from = 0
	}
	n, err := l.r.Read(l.buf[l.to:])
	l.to += n
	l.err = err
}

// collect reads straight into long, which is large, until a line feed or the
// end is in sight; what comes behind the line feed goes into the buffer. The
// line feed itself stays in the buffer. over says that the line is too long.
func (l *lineReader) collect(long []byte) (_ []byte, over bool) {
	for l.err == nil {
		if len(long) > l.limit {
			return long, true
		}
		if cap(long)-len(long) < len(l.buf)/2 {
			bigger := make([]byte, len(long), min(2*cap(long), l.limit+len(l.buf)))
			copy(bigger, long)
			long = bigger
		}
		// Never more than the buffer can take back.
		room := long[len(long):min(cap(long), len(long)+len(l.buf))]
		n, err := l.r.Read(room)
		l.err = err
		if i := bytes.IndexByte(room[:n], '\n'); i >= 0 {
			l.from, l.to = 0, copy(l.buf, room[i:n])
			return long[:len(long)+i], len(long)+i > l.limit
		}
		long = long[:len(long)+n]
	}
	return long, false
}

// skip reads a line that is too long to its end; begun is what was read of it already.
func (l *lineReader) skip(begun []byte) error {
	line := tooLong(begun)
	for {
		chunk := l.buf[l.from:l.to]
		if i := bytes.IndexByte(chunk, '\n'); i >= 0 {
			line.add(chunk[:i])
			l.from += i + 1
			return line
		}
		line.add(chunk)
		l.from, l.to = 0, 0
		if l.err != nil {
			return line
		}
		l.fill()
	}
}
