package remote

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"time"
)

// errTooLarge is that of a body over the cap.
var errTooLarge = errors.New("it is larger than a message may be")

// event is one event of a text/event-stream.
type event struct {
	name string // "": message
	data []byte // the receiver's own
	id   string // of this event or the last that had one
	over bool   // there was too much data, which was thrown away
}

// eventReader takes a stream apart as the HTML standard says
// (https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream),
// except that line ends are LF or CRLF: a lone CR, which servers do not send,
// would have a reader wait for the byte behind it; and that text which is no UTF-8 is
// handed out as it came. It is for one goroutine.
//
// It is our own since those of libraries hold whatever a server sends, however
// long, or hide the retry field, which resumption needs.
type eventReader struct {
	r     *bufio.Reader
	max   int           // bytes of the data of one event
	id    string        // of the last event that came to its end, from which a stream goes on
	said  string        // the id that is id once the present event ends
	retry time.Duration // what the server last asked for; 0: nothing
	over  bool          // the rest of this event belongs to one that was handed out as too large
	more  bool          // the present line goes on
	begun bool          // the first line was read: no byte order mark any more
}

func newEventReader(r io.Reader, limit int) *eventReader {
	return &eventReader{r: bufio.NewReader(r), max: limit}
}

// goOn reads from the next part of the stream, which the last id asked for.
func (e *eventReader) goOn(r io.Reader) {
	e.r.Reset(r)
	e.said, e.over, e.more, e.begun = e.id, false, false, false
}

// next returns the next event that has data. io.EOF: the stream ended, and what
// had begun is no event, as the standard has it.
//
// A line is not kept whole: what it says goes where it belongs as it comes, so
// that an event needs its own size, and once more when it is handed out. One that
// gets too large is handed out at once, since it may never end.
func (e *eventReader) next() (event, error) {
	var ev event
	var data pile
	var begun bool
	for {
		if err := e.skip(); err != nil {
			return event{}, err
		}
		field, value, err := e.line()
		if err != nil {
			return event{}, err
		}
		switch {
		case field == nil:
			e.id = e.said
			if begun {
				ev.id, ev.data = e.id, data.bytes()
				return ev, nil
			}
			ev, e.over = event{}, false
		case string(field) == "data":
			if e.over {
				continue
			}
			if begun {
				data.add([]byte{'\n'})
			}
			for begun = true; ; {
				if data.n+len(value) > e.max {
					e.id = e.said // a stream that breaks off in it goes on behind it
					e.over, ev.over, ev.id = true, true, e.id
					return ev, nil
				}
				if data.add(value); !e.more {
					break
				}
				if value, err = e.rest(); err != nil {
					return event{}, err
				}
			}
		case e.more: // no other field that matters is as long
		case string(field) == "event":
			ev.name = string(value)
		case string(field) == "id":
			if bytes.IndexByte(value, 0) < 0 {
				e.said = string(value)
			}
		case string(field) == "retry":
			if d, ok := counted(string(value), time.Millisecond); ok {
				e.retry = d
			}
		}
	}
}

// skip reads to the end of the present line.
func (e *eventReader) skip() error {
	for e.more {
		if _, err := e.rest(); err != nil {
			return err
		}
	}
	return nil
}

// line returns the field of the next line and its value, nil for an empty line.
// The value goes on where there is more, which rest returns. The slices are valid
// until the next call.
func (e *eventReader) line() (field, value []byte, err error) {
	part, err := e.rest()
	if !e.begun {
		e.begun, part = true, unmarked(part)
	}
	if err != nil || len(part) == 0 && !e.more {
		return nil, nil, err
	}
	field, value, _ = bytes.Cut(part, []byte(":")) // no field: a comment
	return field, bytes.TrimPrefix(value, []byte(" ")), nil
}

// unmarked is text without the byte order mark in front of it, which is none of it.
func unmarked(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) }

// rest returns what follows of a line, without its end.
func (e *eventReader) rest() ([]byte, error) {
	part, err := e.r.ReadSlice('\n')
	e.more = errors.Is(err, bufio.ErrBufferFull)
	switch {
	case e.more:
		// A CR at the end may be half a line end, and is left for the next part.
		if n := len(part) - 1; part[n] == '\r' {
			part = part[:n]
			_ = e.r.UnreadByte() // what was read before
		}
		return part, nil
	case err != nil:
		return nil, err
	}
	return bytes.TrimSuffix(part[:len(part)-1], []byte("\r")), nil
}
