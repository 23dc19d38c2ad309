package tracelog

import (
	"bufio"
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
	j.line = AppendJSON(j.line[:0], r)
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
func AppendJSON(b []byte, r *messages.TraceRecord) []byte {
	b = append(b, `{"v":`...)
	b = strconv.AppendInt(b, int64(r.V), 10)
	b = append(b, `,"time":"`...)
	b = r.Time.AppendFormat(b, time.RFC3339Nano)
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

// appendString appends s as a JSON string. Nearly all are names without
// anything to escape.
func appendString(b []byte, s string) []byte {
	ascii := true
	for i := range len(s) {
		c := s[i]
		if c < 0x20 || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c == 0x7f {
			return appendEscaped(b, s)
		}
		ascii = ascii && c < 0x7f
	}
	if !ascii && (!utf8.ValidString(s) || strings.ContainsAny(s, "\u2028\u2029")) {
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
