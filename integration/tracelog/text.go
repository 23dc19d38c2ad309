package tracelog

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/metamcp/metamcp/messages"
)

// Colours of a terminal.
const (
	plain  = "\x1b[0m"
	dim    = "\x1b[2m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	cyan   = "\x1b[36m"
)

// Text writes one aligned line for each record, for people.
type Text struct {
	w      *bufio.Writer
	line   []byte
	start  time.Time
	colour bool
	widest int // of the hops so far, which the rest of a line stands behind
}

// NewText writes to w, which the caller closes. Times are counted from now.
// colour is for terminals alone.
func NewText(w io.Writer, colour bool) *Text {
	return &Text{w: bufio.NewWriter(w), start: time.Now(), colour: colour}
}

// maxHop bounds how far one long name moves the columns behind it.
const maxHop = 72

// WriteRecord writes one record, into a buffer at first. A line is never divided
// between two writes: a log may go to the same file.
func (t *Text) WriteRecord(r *messages.TraceRecord) error {
	at := r.Time.Sub(t.start)
	request := ""
	if r.Request != 0 {
		request = "#" + strconv.FormatUint(r.Request, 10)
	}
	hop, rest, colour := t.hop(r), t.rest(r), colourOf(r)
	t.widest = max(t.widest, min(utf8.RuneCountInString(hop), maxHop))
	pad := strings.Repeat(" ", max(0, t.widest-utf8.RuneCountInString(hop)))
	if t.colour && colour != "" {
		hop = colour + hop + plain
	}
	t.line = fmt.Appendf(t.line[:0], "%12s  %-6s  %s%s  %s\n", t.dim(span(at)), request, hop, pad, rest)
	if len(t.line) > t.w.Available() {
		if err := t.w.Flush(); err != nil {
			return err
		}
	}
	_, err := t.w.Write(t.line)
	return err
}

// Flush writes what is buffered.
func (t *Text) Flush() error { return t.w.Flush() }

func (t *Text) dim(s string) string {
	if !t.colour {
		return s
	}
	return dim + fmt.Sprintf("%12s", s) + plain
}

// hop is who did something, or who sent what to whom.
func (t *Text) hop(r *messages.TraceRecord) string {
	switch r.Kind {
	case messages.TraceMessage:
		return nameOf(r.From) + " → " + nameOf(r.To) + "  " + clean(r.Type)
	case messages.TraceRequest:
		return "▶ " + called(r)
	case messages.TraceAnswer:
		return "◀ " + called(r)
	case messages.TraceCall:
		return "▷ " + called(r)
	case messages.TraceReturn:
		return "◁ " + called(r)
	}
	return "* " + nameOf(r.To) + "  " + clean(r.Kind)
}

// called is the tool that a request or a call is about.
func called(r *messages.TraceRecord) string {
	return clean(strings.TrimPrefix(r.Server+"/"+r.Tool, "/"))
}

func (t *Text) rest(r *messages.TraceRecord) string {
	var parts []string
	if r.Before != "" {
		state := "[" + r.Before + "]"
		if r.After != r.Before {
			state = "[" + r.Before + " → " + r.After + "]"
		}
		parts = append(parts, clean(state))
	}
	switch r.Kind {
	case messages.TraceMessage:
		parts = append(parts, "wait "+span(time.Duration(r.WaitNs)), "ran "+span(time.Duration(r.RanNs)))
	case messages.TraceAnswer, messages.TraceReturn:
		parts = append(parts, clean(r.Outcome), "after "+span(time.Duration(r.RanNs)))
	case messages.TraceDeadLetter:
		parts = append(parts, clean(r.Type))
	}
	if r.Bytes > 0 {
		parts = append(parts, strconv.Itoa(r.Bytes)+" bytes")
	}
	if r.Kind == messages.TraceMessage && r.Outcome != "" {
		parts = append(parts, strings.ToUpper(clean(r.Outcome)))
	}
	if r.Detail != "" {
		parts = append(parts, clean(r.Detail))
	}
	if len(r.Payload) > 0 {
		parts = append(parts, clean(string(r.Payload)))
	}
	return strings.Join(parts, "  ")
}

func colourOf(r *messages.TraceRecord) string {
	switch r.Kind {
	case messages.TraceMessage:
		if r.Outcome != "" {
			return red
		}
		return ""
	case messages.TraceRequest, messages.TraceCall:
		return cyan
	case messages.TraceAnswer, messages.TraceReturn:
		if r.Outcome != "ok" {
			return red
		}
		return green
	case messages.TraceDeadLetter, messages.TraceFailure, messages.TraceDropped:
		return red
	}
	return yellow
}

// nameOf shortens an actor's path to what tells it from others.
func nameOf(actor string) string {
	if actor == "" {
		return "·"
	}
	return clean(strings.TrimPrefix(strings.TrimPrefix(actor, "metamcp/"), "pool/breaker/"))
}

// clean keeps what a child said from moving a terminal's cursor.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || messages.Steers(r) {
			return '·'
		}
		return r
	}, s)
}

func span(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(time.Millisecond).String()
	case d >= 10*time.Microsecond:
		return d.Round(time.Microsecond).String()
	}
	return d.Round(10 * time.Nanosecond).String()
}
