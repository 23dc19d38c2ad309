package liveview

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/metamcp/metamcp/integration/traceview"
	"github.com/metamcp/metamcp/messages"
)

// opened is a request that is looked at, or one record of the host's own work.
type opened struct {
	record  record
	records []messages.TraceRecord // of the request
	lines   []string
	top     int
	fresh   bool // records came since it was drawn
	drawn   time.Time
}

// quick is how many records a diagram may have that is drawn with each frame;
// a larger one is drawn once a second.
const quick = 200

// identity tells records apart that may be kept twice.
type identity struct {
	kind, to string
	span     uint64
	at       time.Time
}

// open opens the request of a record with everything that is kept of it.
func (m *model) open(r *record) {
	o := &opened{record: *r}
	m.opened = o
	if r.Request > 0 {
		known := map[identity]bool{}
		for _, list := range []*ring{&m.fitting, &m.records, &m.held} {
			for other := range list.all {
				id := identity{other.Kind, other.To, other.Span, other.Time}
				if o.mine(other) && !known[id] {
					known[id] = true
					o.records = append(o.records, other.TraceRecord)
				}
			}
		}
	}
	o.draw(m.width, m.ascii)
}

func (o *opened) mine(r *record) bool {
	return r.Request == o.record.Request && r.run == o.record.run && r.Request > 0
}

// add takes a record that came since.
func (o *opened) add(r *record) {
	if o.mine(r) && len(o.records) < Kept {
		o.records = append(o.records, r.TraceRecord)
		o.fresh = true
	}
}

// refresh draws what came, where it is time.
func (o *opened) refresh(now time.Time, room int, ascii bool) {
	if o.fresh && (len(o.records) <= quick || now.Sub(o.drawn) >= time.Second) {
		o.drawn = now
		o.draw(room, ascii)
	}
}

// draw renders it anew.
func (o *opened) draw(room int, ascii bool) {
	o.fresh = false
	if len(o.records) == 0 {
		o.lines = o.fields()
		return
	}
	b := traceview.NewBuilder(traceview.Limits{})
	begun := false
	for i := range o.records {
		b.Add(o.records[i])
		begun = begun || o.records[i].Kind == messages.TraceRequest
	}
	var text bytes.Buffer
	if !begun {
		text.WriteString("Its first records are not kept any more.\n")
	}
	request := b.Trace().Find(strconv.FormatUint(o.record.Request, 10))
	if request == nil {
		o.lines = o.fields()
		return
	}
	if err := traceview.WriteSequence(&text, request, traceview.Style{Width: room, Color: true, ASCII: ascii}); err != nil {
		o.lines = []string{clean(err.Error(), maxDetail)}
		return
	}
	// traceview leaves what changes the width of others; it takes no column.
	shown := strings.Map(func(r rune) rune {
		if r != '\x1b' && r != '\n' && obeyed(r) {
			return -1
		}
		return r
	}, strings.TrimRight(text.String(), "\n"))
	o.lines = strings.Split(shown, "\n")
}

// fields are all members of one record.
func (o *opened) fields() []string {
	r := &o.record
	lines := []string{"It belongs to no request: it is the host's own work.", ""}
	for _, f := range [][2]string{
		{"time", r.Time.Local().Format("2006-01-02 15:04:05.000000")}, {"kind", r.Kind}, {"from", r.From}, {"to", r.To}, {"type", r.Type},
		{"before", r.Before}, {"after", r.After}, {"outcome", r.Outcome}, {"server", r.Server}, {"tool", r.Tool}, {"detail", r.Detail},
		{"payload", string(r.Payload)},
	} {
		if f[1] != "" {
			lines = append(lines, fmt.Sprintf("%-8s  %s", f[0], clean(f[1], maxDetail)))
		}
	}
	if r.Kind == messages.TraceMessage {
		lines = append(lines,
			"wait      "+traceview.Duration(time.Duration(r.WaitNs)),
			"ran       "+traceview.Duration(time.Duration(r.RanNs)))
	}
	for _, f := range []struct {
		name string
		n    uint64
	}{{"span", r.Span}, {"parent", r.Parent}, {"count", r.Count}, {"bytes", uint64(max(r.Bytes, 0))}} {
		if f.n > 0 {
			lines = append(lines, fmt.Sprintf("%-8s  %d", f.name, f.n))
		}
	}
	return lines
}

// openedRows is how many lines of it are seen.
func (m *model) openedRows() int { return max(1, m.height-titleLines-footerLines) }

func (m *model) openedKey(name string) {
	o := m.opened
	switch name {
	case "esc", "enter", "backspace", "left":
		m.opened = nil
		return
	}
	rows := m.openedRows()
	o.top = min(max(o.top+step(name, rows-1), 0), max(0, len(o.lines)-rows))
}

func (m *model) openedLines() []string {
	o, rows := m.opened, m.openedRows()
	o.top = min(o.top, max(0, len(o.lines)-rows))
	to := min(o.top+rows, len(o.lines))
	text := "record"
	if o.record.Request > 0 {
		text = fmt.Sprintf("request %d of %s", o.record.Request, m.name)
	}
	lines := []string{m.title(text, fmt.Sprintf("%d-%d of %d", min(o.top+1, to), to, len(o.lines)), m.width, true)}
	for _, line := range o.lines[o.top:to] {
		lines = append(lines, cutTo(line, m.width))
	}
	const esc = "esc back"
	f, gone := lookFaint, part{}
	if !m.link.live {
		gone = m.linkPart(m.width - width(esc) - gap)
	}
	return append(filled(lines, rows+titleLines, 0), m.joined(m.width, part{esc, f}, gone, part{"q quit", f}, part{"? help", f}, part{"arrows, pgup, pgdn, home, end scroll", f}))
}

// helpText fits the smallest window that is meant to be used, 60x16.
var helpText = []string{
	"tab              the other pane",
	"arrows pgup pgdn home end  move; end follows the newest",
	"enter            a message: its request as a diagram;",
	"                 an actor: only what has to do with it",
	"esc              back; no filter",
	"/                filter: server=NAME actor=PATTERN type=NAME",
	"                 request=NUMBER errors, and words to search",
	"p                pause; what comes meanwhile is shown later",
	"q                quit",
	"",
	"pool: busy, idle and free places. Dropped: records that the",
	"host or this view had no room for; 10000 are kept.",
}

func (m *model) helpLines() []string {
	lines := []string{m.title("help", "", m.width, true)}
	for _, line := range helpText {
		lines = append(lines, cutTo(line, m.width))
	}
	rows := m.height - footerLines
	return append(filled(lines, rows, 0), lookFaint.paint(fit("any key goes back, q quits", m.width)))
}
