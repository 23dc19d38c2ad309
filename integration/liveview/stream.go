package liveview

import (
	"strconv"
	"strings"
	"time"

	"github.com/metamcp/metamcp/integration/traceview"
	"github.com/metamcp/metamcp/messages"
)

// columns are the widths of a message's cells; the last takes the rest.
type columns struct {
	clock   string // layout of the time
	request int
	hop     int
	kind    int
}

// columnsFor lays out lines of so many columns that hold these records.
func columnsFor(room int, ascii bool, records []*record) columns {
	const (
		wide, middle = 110, 76
		leastHop     = 12
	)
	c := columns{clock: "15:04:05.000", request: 5, kind: 14}
	switch {
	case room < middle:
		c.clock, c.request, c.kind = "05.000", 4, 11
	case room < wide:
		c.clock = "04:05.000"
	}
	longest := leastHop
	for _, r := range records {
		longest = max(longest, width(hop(&r.TraceRecord, ascii)))
		if r.Request > 0 {
			c.request = max(c.request, len(strconv.FormatUint(r.Request, 10))+1)
		}
	}
	c.hop = max(leastHop, min(longest, room*45/100))
	return c
}

// hop is who did something, or who sent what to whom.
func hop(r *messages.TraceRecord, ascii bool) string {
	to, in, out, call, back := " → ", "▶ ", "◀ ", "▷ ", "◁ "
	if ascii {
		to, in, out, call, back = " > ", "> ", "< ", "> ", "< "
	}
	switch r.Kind {
	case messages.TraceMessage:
		return nameOf(r.From, ascii) + to + nameOf(r.To, ascii)
	case messages.TraceRequest:
		return in + called(r)
	case messages.TraceAnswer:
		return out + called(r)
	case messages.TraceCall:
		return call + called(r)
	case messages.TraceReturn:
		return back + called(r)
	case messages.TraceStart, messages.TraceDropped:
		return "*"
	}
	return "* " + nameOf(r.To, ascii)
}

// called is the tool that a request or a call is about.
func called(r *messages.TraceRecord) string {
	return clean(strings.TrimPrefix(r.Server+"/"+r.Tool, "/"), maxName)
}

// nameOf shortens an actor's path to what tells it from others.
func nameOf(actor string, ascii bool) string {
	if actor == "" {
		if ascii {
			return "-"
		}
		return "·"
	}
	return clean(strings.TrimPrefix(strings.TrimPrefix(actor, "metamcp/"), "pool/breaker/"), maxName)
}

// kindOf is what was sent, or what happened.
func kindOf(r *messages.TraceRecord) string {
	switch r.Kind {
	case messages.TraceMessage:
		return clean(r.Type, maxName)
	case messages.TraceAnswer, messages.TraceReturn:
		return clean(r.Outcome, maxName)
	}
	return clean(r.Kind, maxName)
}

// rest is everything else of a record.
func rest(r *messages.TraceRecord, ascii bool) string {
	var parts []string
	if r.Kind == messages.TraceMessage && r.Outcome != "" {
		parts = append(parts, strings.ToUpper(clean(r.Outcome, maxName)))
	}
	if r.Before != "" && r.Before != r.After {
		to := " → "
		if ascii {
			to = " > "
		}
		parts = append(parts, clean(r.Before+to+r.After, maxName))
	}
	switch r.Kind {
	case messages.TraceMessage:
		parts = append(parts, "wait "+traceview.Duration(time.Duration(r.WaitNs))+" ran "+traceview.Duration(time.Duration(r.RanNs)))
	case messages.TraceAnswer, messages.TraceReturn:
		parts = append(parts, "after "+traceview.Duration(time.Duration(r.RanNs)))
	case messages.TraceDeadLetter:
		parts = append(parts, clean(r.Type, maxName))
	case messages.TraceDropped:
		parts = append(parts, count(r.Count, "record"))
	}
	if r.Bytes > 0 {
		parts = append(parts, count(uint64(r.Bytes), "byte"))
	}
	if r.Detail != "" {
		parts = append(parts, clean(r.Detail, maxDetail))
	}
	if len(r.Payload) > 0 {
		parts = append(parts, clean(string(r.Payload), maxDetail))
	}
	return strings.Join(parts, "  ")
}

func count(n uint64, what string) string {
	text := strconv.FormatUint(n, 10) + " " + what
	if n != 1 {
		text += "s"
	}
	return text
}

// lookOfRecord is the colour of a record.
func lookOfRecord(r *messages.TraceRecord) look {
	switch r.Kind {
	case messages.TraceMessage:
		if r.Outcome != "" {
			return lookBad
		}
		return lookPlain
	case messages.TraceRequest, messages.TraceCall:
		return lookCalm
	case messages.TraceAnswer, messages.TraceReturn:
		if r.Outcome != "ok" {
			return lookBad
		}
		return lookGood
	case messages.TraceDeadLetter, messages.TraceFailure, messages.TraceDropped, "refused", "spawn-failed", "unsent", "too-large":
		return lookBad
	}
	return lookWarn
}

// line is one message, exactly so wide.
func (m *model) line(r *record, c columns, room int, chosen bool) string {
	t := &r.TraceRecord
	request := ""
	if t.Request > 0 {
		request = "#" + strconv.FormatUint(t.Request, 10)
	}
	clock := t.Time.Local().Format(c.clock)
	mark := " "
	if chosen {
		mark = ">"
	}
	what := fit(hop(t, m.ascii), c.hop) + "  " + fit(kindOf(t), c.kind)
	head := mark + clock + " " + fit(request, c.request) + " "
	tail := "  " + rest(t, m.ascii)
	if chosen {
		return lookChosen.paint(fit(m.plain(head+what+tail), room))
	}
	left := room - width(head)
	if left <= 0 {
		return lookFaint.paint(fit(head, room))
	}
	what = m.plain(cutTo(what, left))
	tail = fit(m.plain(tail), left-width(what))
	return lookFaint.paint(head) + lookOfRecord(t).paint(what) + lookFaint.paint(tail)
}
