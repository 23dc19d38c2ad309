package tracelog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/metamcp/metamcp/messages"
)

// JSON writes one JSON object a line.
type JSON struct {
	w    *bufio.Writer
	line []byte
	clock
}

// clock writes times, and the seconds of neighbours once.
type clock struct {
	second int64
	prefix []byte // as RFC 3339 up to the second
}

// append writes t, which is UTC, as time.RFC3339Nano does.
func (c *clock) append(b []byte, t time.Time) []byte {
	if s := t.Unix(); s != c.second || c.prefix == nil {
		c.second, c.prefix = s, t.AppendFormat(c.prefix[:0], "2006-01-02T15:04:05")
	}
	b = append(b, c.prefix...)
	if n := t.Nanosecond(); n != 0 {
		digits := [...]byte{'.', '0', '0', '0', '0', '0', '0', '0', '0', '0'}
		for i := len(digits) - 1; n != 0; i-- {
			digits[i] += byte(n % 10)
			n /= 10
		}
		b = append(b, bytes.TrimRight(digits[:], "0")...)
	}
	return append(b, 'Z')
}

// NewJSON writes to w, which the caller closes.
func NewJSON(w io.Writer) *JSON { return &JSON{w: bufio.NewWriterSize(w, bufferSize)} }

// WriteRecord writes one record, into a buffer at first.
func (j *JSON) WriteRecord(r *messages.TraceRecord) error {
	_, err := j.put(r)
	return err
}

// bufferSize is how much is written at once.
const bufferSize = 64 << 10

// put writes one record and returns its size. A line is never divided between
// two writes: another host may write to the same file.
func (j *JSON) put(r *messages.TraceRecord) (int, error) {
	j.line = appendRecord(j.line[:0], r, &j.clock)
	if len(j.line) > j.w.Available() {
		if err := j.w.Flush(); err != nil {
			return 0, err
		}
	}
	return j.w.Write(j.line)
}

// Flush writes what is buffered.
func (j *JSON) Flush() error { return j.w.Flush() }

// AppendJSON appends the record as one line. It is what encoding/json makes of
// it, in a fraction of the time: a trace has several records for each call.
func AppendJSON(b []byte, r *messages.TraceRecord) []byte { return appendRecord(b, r, &clock{}) }

func appendRecord(b []byte, r *messages.TraceRecord, c *clock) []byte {
	b = append(b, `{"v":`...)
	b = strconv.AppendInt(b, int64(r.V), 10)
	b = append(b, `,"time":"`...)
	b = c.append(b, r.Time.UTC())
	b = append(b, `","kind":`...)
	b = appendString(b, r.Kind)
	b = appendUint(b, `,"request":`, r.Request)
	b = appendUint(b, `,"span":`, r.Span)
	b = appendUint(b, `,"parent":`, r.Parent)
	b = appendText(b, `,"from":`, r.From)
	b = appendText(b, `,"to":`, r.To)
	b = appendText(b, `,"type":`, r.Type)
	b = appendText(b, `,"before":`, r.Before)
	b = appendText(b, `,"after":`, r.After)
	b = appendInt(b, `,"waitNs":`, r.WaitNs)
	b = appendInt(b, `,"ranNs":`, r.RanNs)
	b = appendText(b, `,"outcome":`, r.Outcome)
	b = appendText(b, `,"server":`, r.Server)
	b = appendText(b, `,"tool":`, r.Tool)
	b = appendInt(b, `,"bytes":`, int64(r.Bytes))
	b = appendUint(b, `,"count":`, r.Count)
	b = appendText(b, `,"detail":`, r.Detail)
	if len(r.Payload) > 0 {
		b = append(b, `,"payload":`...)
		b = append(b, r.Payload...)
	}
	return append(b, '}', '\n')
}

func appendUint(b []byte, name string, n uint64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendUint(append(b, name...), n, 10)
}

func appendInt(b []byte, name string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, name...), n, 10)
}

func appendText(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	return appendString(append(b, name...), s)
}

// What a byte may be in a JSON string.
const (
	special = 1 << iota // escaped, as encoding/json does it
	wide                // part of a character beyond ASCII
)

var kinds = func() (k [256]byte) {
	for c := range k {
		switch {
		case c < 0x20, strings.ContainsRune("\"\\<>&\x7f", rune(c)):
			k[c] = special
		case c > 0x7f:
			k[c] = wide
		}
	}
	return k
}()

// appendString appends s as a JSON string. Nearly all are names without
// anything to escape.
func appendString(b []byte, s string) []byte {
	var found byte
	for i := range len(s) {
		found |= kinds[s[i]]
	}
	if found&special != 0 || found&wide != 0 && (!utf8.ValidString(s) || strings.ContainsAny(s, "\u2028\u2029")) {
		return appendEscaped(b, s)
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

func appendEscaped(b []byte, s string) []byte {
	q, _ := json.Marshal(s) // a string always marshals
	return append(b, q...)
}
