package child

import (
	"bytes"
	"sync"

	"github.com/metamcp/metamcp/integration/jsonrpc"
)

const (
	// readSize is the size of the pooled buffers that stdout is read into.
	readSize = 64 << 10
	// smallLine is up to where a line is copied out of the read buffer; from
	// there on the buffer itself is handed over.
	smallLine = 32 << 10
	// prefixSize is how much of a line that is skipped is kept to be shown, and how
	// much of its end. The log shows half of it, since a secret where it is cut could
	// not be recognized.
	prefixSize = jsonrpc.IDWindow
	// maxHint bounds the buffer that is made since an earlier line needed it.
	maxHint = 4 << 20
)

var readBuffers = sync.Pool{New: func() any { b := make([]byte, readSize); return &b }}

// lineSink takes what a [splitter] finds. The slices are the sink's own.
type lineSink interface {
	// line is one line that begins with '{' or '['; more says that another
	// line was read together with it.
	line(line []byte, more bool)
	// noise is the beginning of another line; cut says that it went on.
	noise(prefix []byte, cut bool)
	// tooLarge is the beginning of a message over the cap, as soon as it is
	// known to be one.
	tooLarge(prefix []byte)
	// skipped is the end of that message, once it is there.
	skipped(suffix []byte)
	// grown says that a message of more than one read buffer is coming.
	grown()
}

// splitter cuts a stream into lines. No byte is searched twice, and between
// two messages it holds no buffer. It is for one goroutine.
type splitter struct {
	sink lineSink
	max  int // bytes of the longest line that passes

	buf    []byte
	pooled *[]byte // buf's box where it came from the pool
	given  bool    // a part of buf was handed over: it must not be written again
	start  int     // of the current line
	seen   int     // searched for a line feed up to here
	end    int     // of the data
	hint   int     // length of the last line that did not fit into a pooled buffer

	skipping bool   // until the next line feed
	tail     []byte // the end of what is skipped; nil where nobody asks for it
	begun    bool   // the first line has passed: no byte order mark any more
}

// room returns where the next bytes of the stream go; it is never empty.
func (s *splitter) room() []byte {
	if s.buf == nil {
		s.pooled = readBuffers.Get().(*[]byte)
		s.buf = *s.pooled
	}
	if s.end == len(s.buf) {
		// settle leaves the current line at the front, so the buffer is full
		// of one line. The next one may be as long as the last: a buffer made at
		// once for it spares the copies, and that they are zeroed before.
		larger := make([]byte, min(max(2*len(s.buf), s.hint+s.hint/8), max(s.max+readSize, 2*readSize)))
		copy(larger, s.buf[:s.end])
		s.drop()
		s.buf = larger
		s.sink.grown()
	}
	return s.buf[s.end:]
}

// idle gives the buffer back while there is nothing in it.
func (s *splitter) idle() {
	if s.end == 0 {
		s.drop()
	}
}

func (s *splitter) drop() {
	if s.pooled != nil && !s.given {
		readBuffers.Put(s.pooled)
	}
	s.buf, s.pooled, s.given = nil, nil, false
}

// took says that n bytes were read into room, and hands on the lines that they
// complete.
func (s *splitter) took(n int) {
	s.end += n
	for i := bytes.IndexByte(s.buf[s.seen:s.end], '\n'); i >= 0; {
		line := s.buf[s.start : s.seen+i]
		s.seen += i + 1
		s.start = s.seen
		i = bytes.IndexByte(s.buf[s.seen:s.end], '\n')
		if s.skipping {
			s.keep(line)
			s.skipped()
			continue
		}
		s.emit(line, i >= 0)
	}
	s.seen = s.end
	s.bound()
	s.settle()
}

// finish hands on a last line that had no end.
func (s *splitter) finish() {
	if s.skipping {
		s.skipped()
	} else if s.end > s.start {
		s.emit(s.buf[s.start:s.end], false)
	}
	s.start, s.seen, s.end = 0, 0, 0
	s.drop()
}

// emit classifies one complete line and hands it on as the sink's own.
func (s *splitter) emit(line []byte, more bool) {
	line = s.trim(line)
	s.begun = true
	switch {
	case len(line) == 0:
	case !opensMessage(line):
		s.sink.noise(prefix(line), len(line) > prefixSize)
	case len(line) > s.max:
		s.sink.tooLarge(prefix(line))
		s.sink.skipped(suffix(line))
	case len(line) < smallLine:
		s.sink.line(append(make([]byte, 0, len(line)), line...), more)
	default:
		if len(line) >= readSize {
			s.hint = min(len(line), maxHint)
		}
		s.given = true
		s.sink.line(line[:len(line):len(line)], more)
	}
}

// bound looks at the incomplete line: one that is no message is not collected
// at all, nor are blanks in front of one, and one that is too long no further.
func (s *splitter) bound() {
	if s.skipping {
		s.keep(s.buf[s.start:s.end])
		return
	}
	n := s.end - s.start
	if n <= prefixSize {
		return
	}
	line := s.trimLeft(s.buf[s.start:s.end]) // its end is not here, and may be blank for long
	switch {
	case len(line) == 0:
		s.start, s.begun = s.end, true // it may still become a message
		return
	case !opensMessage(line):
		s.sink.noise(prefix(line), true)
	case n > s.max:
		s.sink.tooLarge(prefix(line))
		s.tail = suffix(line)
	default:
		return
	}
	s.skipping, s.begun = true, true
}

// keep adds a piece of what is skipped to its end.
func (s *splitter) keep(piece []byte) {
	if s.tail == nil {
		return
	}
	s.tail = jsonrpc.KeepTail(s.tail, piece)
}

// skipped ends the skipping of a line.
func (s *splitter) skipped() {
	s.skipping = false
	if s.tail != nil {
		s.sink.skipped(s.tail)
		s.tail = nil
	}
}

// settle brings the incomplete line to the front of a buffer that may be
// written to.
func (s *splitter) settle() {
	if s.skipping {
		s.start, s.seen = s.end, s.end
	}
	rest := s.buf[s.start:s.end]
	if len(rest) == 0 {
		if s.given || s.pooled == nil {
			s.drop()
		}
		s.start, s.seen, s.end = 0, 0, 0
		return
	}
	if s.given || s.pooled == nil && s.start > 0 && len(rest) < readSize/2 {
		s.replace(rest)
	} else if s.start > 0 {
		copy(s.buf, rest)
	}
	s.start, s.seen, s.end = 0, len(rest), len(rest)
}

// replace puts rest into a fresh buffer and lets go of the old one.
func (s *splitter) replace(rest []byte) {
	var fresh []byte
	var pooled *[]byte
	if len(rest) < readSize {
		pooled = readBuffers.Get().(*[]byte)
		fresh = *pooled
	} else {
		fresh = make([]byte, 2*len(rest))
	}
	copy(fresh, rest)
	s.drop()
	s.buf, s.pooled = fresh, pooled
}

// trim cuts off what may surround a message: blanks, a carriage return and, in
// front of the first line, a byte order mark.
func (s *splitter) trim(line []byte) []byte {
	line = s.trimLeft(line)
	for len(line) > 0 && isBlank(line[len(line)-1]) {
		line = line[:len(line)-1]
	}
	return line
}

func (s *splitter) trimLeft(line []byte) []byte {
	if !s.begun {
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	for len(line) > 0 && isBlank(line[0]) {
		line = line[1:]
	}
	return line
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

func opensMessage(line []byte) bool { return len(line) > 0 && (line[0] == '{' || line[0] == '[') }

func prefix(line []byte) []byte { return bytes.Clone(line[:min(len(line), prefixSize)]) }
func suffix(line []byte) []byte { return bytes.Clone(line[max(0, len(line)-prefixSize):]) }
