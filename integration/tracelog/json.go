package tracelog

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"time"

	"github.com/metamcp/metamcp/integration/jsonrpc"
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

// appendRecord appends the record as one line. It is what encoding/json makes of
// it, without the escapes for HTML, in a fraction of the time: a trace has several
// records for each call.
func appendRecord(b []byte, r *messages.TraceRecord, c *clock) []byte {
	b = append(b, `{"v":`...)
	b = strconv.AppendInt(b, int64(r.V), 10)
	b = append(b, `,"time":"`...)
	b = c.append(b, r.Time.UTC())
	b = append(b, `","kind":`...)
	b = jsonrpc.AppendQuote(b, r.Kind)
	b = jsonrpc.AppendInt(b, `,"pid":`, int64(r.PID))
	b = jsonrpc.AppendUint(b, `,"request":`, r.Request)
	b = jsonrpc.AppendUint(b, `,"span":`, r.Span)
	b = jsonrpc.AppendUint(b, `,"parent":`, r.Parent)
	b = jsonrpc.AppendText(b, `,"from":`, r.From)
	b = jsonrpc.AppendText(b, `,"to":`, r.To)
	b = jsonrpc.AppendText(b, `,"type":`, r.Type)
	b = jsonrpc.AppendText(b, `,"before":`, r.Before)
	b = jsonrpc.AppendText(b, `,"after":`, r.After)
	b = jsonrpc.AppendInt(b, `,"waitNs":`, r.WaitNs)
	b = jsonrpc.AppendInt(b, `,"ranNs":`, r.RanNs)
	b = jsonrpc.AppendText(b, `,"outcome":`, r.Outcome)
	b = jsonrpc.AppendText(b, `,"server":`, r.Server)
	b = jsonrpc.AppendText(b, `,"tool":`, r.Tool)
	b = jsonrpc.AppendInt(b, `,"bytes":`, int64(r.Bytes))
	b = jsonrpc.AppendUint(b, `,"count":`, r.Count)
	b = jsonrpc.AppendText(b, `,"detail":`, r.Detail)
	if len(r.Payload) > 0 {
		b = append(b, `,"payload":`...)
		b = append(b, r.Payload...)
	}
	return append(b, '}', '\n')
}
