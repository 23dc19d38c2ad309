package remote

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// errTooLarge is that of an event over the cap; the stream goes on behind it.
var errTooLarge = errors.New("the event is larger than a message may be")

// event is one event of a text/event-stream.
type event struct {
	name string // "": message
	data []byte // the receiver's own
	id   string // of this event or the last that had one
	over bool   // data was thrown away, since there was too much of it
}

// eventReader takes a stream apart as the HTML standard says
// (https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream),
// except that line ends are LF or CRLF: a lone CR, which servers do not send,
// would have a reader wait for the byte behind it. It is for one goroutine.
//
// It is our own since those of libraries hold whatever a server sends, however
// long, or hide the retry field, which resumption needs.
type eventReader struct {
	r     *bufio.Reader
	max   int // bytes of the data of one event
	id    string
	retry time.Duration // what the server last asked for; 0: nothing
}

func newEventReader(r io.Reader, limit int) *eventReader {
	return &eventReader{r: bufio.NewReader(r), max: limit}
}

// goOn reads from the next part of the stream, which the last id asked for.
func (e *eventReader) goOn(r io.Reader) { e.r.Reset(r) }

// next returns the next event that has data. io.EOF: the stream ended, and what
// had begun is no event, as the standard has it.
func (e *eventReader) next() (event, error) {
	var ev event
	var begun bool
	for {
		field, value, err := e.line()
		over := errors.Is(err, errTooLarge)
		if err != nil && !over {
			return event{}, err
		}
		switch {
		case over:
			ev.over, begun = true, true
		case field == nil:
			if begun {
				ev.id = e.id
				return ev, nil
			}
			ev = event{}
		case string(field) == "data":
			if ev.over || len(ev.data)+len(value) > e.max {
				ev.data, ev.over, begun = nil, true, true
				continue
			}
			if begun {
				ev.data = append(ev.data, '\n')
			}
			ev.data, begun = append(ev.data, value...), true
		case string(field) == "event":
			ev.name = string(value)
		case string(field) == "id":
			const longest = 4 << 10
			if len(value) <= longest && bytes.IndexByte(value, 0) < 0 {
				e.id = string(value)
			}
		case string(field) == "retry":
			const longest = 24 * 60 * 60 * 1000
			if ms, err := strconv.Atoi(string(value)); err == nil && ms >= 0 && ms <= longest {
				e.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

// line returns a field and its value, nil for an empty line. The slices are
// valid until the next call where the line was short.
func (e *eventReader) line() (field, value []byte, err error) {
	var long []byte
	for {
		part, err := e.r.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			const name = 64 // of the field, colon and blank included
			if len(long)+len(part) > e.max+name {
				return nil, nil, e.skip()
			}
			long = append(long, part...)
			continue
		case err != nil:
			return nil, nil, err
		case long != nil:
			part = append(long, part...)
		}
		part = bytes.TrimSuffix(part[:len(part)-1], []byte("\r"))
		if len(part) == 0 {
			return nil, nil, nil
		}
		field, value, _ = bytes.Cut(part, []byte(":")) // no field: a comment
		return field, bytes.TrimPrefix(value, []byte(" ")), nil
	}
}

// skip reads to the end of a line that is too long.
func (e *eventReader) skip() error {
	for {
		_, err := e.r.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return err
		default:
			return errTooLarge
		}
	}
}
