package traceview

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// The measures of a sequence diagram, in columns.
const (
	timeColumn  = 11 // when, from the request's start
	leastGap    = 11 // between two lifelines
	goodGap     = 15 // from which on the times get a column of their own
	widestGap   = 26
	timesColumn = 27 // "wait 4.83µs ran 37.7µs"
)

// glyphs are the characters that a diagram is drawn with.
type glyphs struct{ line, dash, right, left, fromRight, fromLeft, state, event, self string }

var (
	boxGlyphs   = glyphs{"│", "─", "▶", "◀", "├", "┤", "◆", "●", "↻"}
	asciiGlyphs = glyphs{"|", "-", ">", "<", "|", "|", "#", "*", "@"}
)

// WriteSequence draws one request as a sequence diagram for a terminal: a
// lifeline for each actor, an arrow for each message, notes for changes of
// state and events. Where there are more actors than fit side by side, it is
// an indented list.
func WriteSequence(out io.Writer, r *Request, s Style) error {
	w := bufio.NewWriter(out)
	d := newDiagram(r, s)
	d.heading(w)
	if len(r.Records) == 0 {
		fmt.Fprintln(w, "no record of it fits")
		return w.Flush()
	}
	if d.gap < leastGap {
		fmt.Fprintln(w, d.style.paint(colorFaint, fit("times are wait + handling", d.style.width(), d.style.mark())))
		d.list(w)
		return w.Flush()
	}
	d.names(w)
	hop := 0
	for _, rec := range r.Records {
		if !rec.Message() {
			d.event(w, rec)
			continue
		}
		d.message(w, &r.Hops[hop], hop == r.Slowest)
		hop++
	}
	const many = 20
	if len(r.Records) > many {
		d.names(w)
	}
	return w.Flush()
}

// diagram is the layout of one request.
type diagram struct {
	glyphs
	request *Request
	style   Style
	actors  []string
	short   map[string]string
	at      map[string]int // columns of lifelines
	gap     int
	times   int // the column of wait and handling; 0: they go below the arrow
	// told are the transitions that events tell, of which the message's own
	// change of state would be a repetition.
	told map[string]int
}

func newDiagram(r *Request, s Style) *diagram {
	d := &diagram{glyphs: boxGlyphs, request: r, style: s, actors: actorsOf(r.Records), at: map[string]int{}, told: map[string]int{}}
	if s.ASCII {
		d.glyphs = asciiGlyphs
	}
	d.short = shortNames(d.actors)
	room := s.width() - timeColumn
	if n := len(d.actors); n*goodGap <= room-timesColumn {
		d.gap = min((room-timesColumn)/n, widestGap)
		d.times = timeColumn + n*d.gap + 1
	} else {
		d.gap = room / n
	}
	for i, a := range d.actors {
		d.at[a] = timeColumn + i*d.gap + (d.gap-1)/2
	}
	for _, rec := range r.Records {
		if rec.Kind == "transition" {
			d.told[rec.To+" "+states(rec.Detail)]++
		}
	}
	return d
}

// states is the "A → B" of a transition's detail, without the reason.
func states(detail string) string {
	before, _, _ := strings.Cut(detail, " (")
	return before
}

func (d *diagram) heading(w io.Writer) {
	r := d.request
	fmt.Fprint(w, d.style.paint(colorBold, d.style.text(r.Title())), "\n")
	line := "start " + r.Start.In(d.style.location()).Format("2006-01-02 15:04:05.000000")
	line += "  took " + Duration(r.Duration)
	if r.Waited > 0 {
		line += ", " + Duration(r.Waited) + " of it waiting for a process"
	}
	if r.Outcome != "" {
		line += "  outcome " + r.ended()
	}
	line = d.style.text(line)
	if r.Failed {
		line = d.style.paint(colorFailed, line)
	}
	fmt.Fprintln(w, line)
	if h := r.SlowestHop(); h != nil {
		text := fmt.Sprintf("slowest hop, marked !: %s at %s, %s (wait %s, itself %s)", h.Type, d.short[h.To], Duration(h.Cost()), Duration(time.Duration(h.WaitNs)), Duration(h.Self))
		fmt.Fprintln(w, d.style.paint(colorSlow, d.style.text(text)))
	}
	fmt.Fprintln(w)
}

func (d *diagram) names(w *bufio.Writer) {
	c := newCanvas(d.style.width(), d.style)
	for _, a := range d.actors {
		name := fit(d.style.text(d.short[a]), d.gap-1, d.style.mark())
		c.put(max(d.at[a]-textCells(name)/2, 0), name, colorBold)
	}
	c.write(w)
}

// line is a line with nothing but lifelines.
func (d *diagram) line() *canvas {
	c := newCanvas(d.style.width(), d.style)
	for _, at := range d.at {
		c.put(at, d.glyphs.line, colorFaint)
	}
	return c
}

func (d *diagram) when(c *canvas, r *Record) {
	at := r.Time.Sub(d.request.Start)
	text := Duration(at)
	if at >= time.Millisecond && at < 10*time.Second { // three figures would not tell neighbours apart
		text = fmt.Sprintf("%.3fms", float64(at)/float64(time.Millisecond))
	}
	text = d.style.text(text)
	c.put(max(timeColumn-2-textCells(text), 0), text, colorFaint)
}

func (d *diagram) message(w *bufio.Writer, h *Hop, slowest bool) {
	color, mark := "", ""
	if slowest {
		color, mark = colorSlow, "! "
	}
	if h.Outcome != "" {
		color = colorFailed
	}
	c := d.line()
	d.when(c, h.Record)
	d.arrow(c, d.at[h.From], d.at[h.To], h.Type, color)
	times := mark + h.times()
	if d.times > 0 {
		c.put(d.times, times, color)
	}
	c.write(w)
	if d.times == 0 {
		d.note(w, h.To, " ", times, color)
	}
	change := h.Before + " → " + h.After
	switch told := h.To + " " + change; {
	case h.Before == h.After:
	case d.told[told] > 0:
		d.told[told]--
	default:
		d.note(w, h.To, d.state, change, colorEvent)
	}
	if h.Outcome != "" {
		d.note(w, h.To, d.glyphs.event, h.Outcome, colorFailed)
	}
}

func (h *Hop) times() string {
	return "wait " + Duration(time.Duration(h.WaitNs)) + " ran " + Duration(time.Duration(h.RanNs))
}

// arrow draws from one column to another, with as much of the label as fits.
func (d *diagram) arrow(c *canvas, from, to int, label, color string) {
	if from == to {
		c.put(from, d.self+" "+fit(d.style.text(label), len(c.cells)-from-2, d.style.mark()), color)
		return
	}
	left, right := min(from, to)+1, max(from, to)-1
	c.put(left, strings.Repeat(d.dash, right-left+1), color)
	if to > from {
		c.put(from, d.fromRight, color)
		c.put(right, d.right, color)
		right--
	} else {
		c.put(from, d.fromLeft, color)
		c.put(left, d.left, color)
		left++
	}
	label = fit(d.style.text(label), right-left-1, d.style.mark())
	if label == "" {
		return
	}
	label = " " + label + " "
	c.put(left+(right-left+1-textCells(label))/2, label, color)
}

func (d *diagram) event(w *bufio.Writer, r *Record) {
	c := d.line()
	d.when(c, r)
	mark, color := d.glyphs.event, colorEvent
	switch r.Kind {
	case "transition":
		mark = d.state
	case messages.TraceDeadLetter, messages.TraceFailure:
		color = colorFailed
	case messages.TraceAnswer, messages.TraceReturn:
		if r.Outcome != outcomeOK {
			color = colorFailed
		}
	}
	d.noteOn(c, d.at[r.To], mark, eventText(r), color)
	c.write(w)
}

// eventText is an event in words.
func eventText(r *Record) string {
	var text string
	switch r.Kind {
	case "transition":
		return r.Detail
	case messages.TraceRequest, messages.TraceCall:
		text = r.Kind + " " + r.Server
		if r.Server != "" && r.Tool != "" {
			text += "/"
		}
		text += r.Tool
	case messages.TraceAnswer, messages.TraceReturn:
		text = r.Kind + " " + r.Outcome
		if r.RanNs > 0 {
			text += " after " + Duration(time.Duration(r.RanNs))
		}
	default:
		text = r.Kind
		if r.Type != "" {
			text += " " + r.Type
		}
	}
	if r.Bytes > 0 {
		text += " " + plural(r.Bytes, "byte")
	}
	if r.Detail != "" {
		text += " " + r.Detail
	}
	if payload := r.payload(); payload != "" {
		text += ": " + payload
	}
	return text
}

// note writes a line of its own with a text at an actor's lifeline.
func (d *diagram) note(w *bufio.Writer, actor, mark, text, color string) {
	c := d.line()
	d.noteOn(c, d.at[actor], mark, text, color)
	c.write(w)
}

// noteOn puts a mark on a lifeline and a text beside it: right, or left where
// only there is room for it.
func (d *diagram) noteOn(c *canvas, at int, mark, text, color string) {
	if mark != " " {
		c.put(at, mark, color)
	}
	text = d.style.text(text)
	right, left := len(c.cells)-at-2, at-1-timeColumn
	if n := textCells(text); n > right && left > right {
		text = fit(text, left, d.style.mark())
		c.put(at-1-textCells(text), text, color)
		return
	}
	c.put(at+2, fit(text, right, d.style.mark()), color)
}

// list is the diagram where it has more lifelines than room.
func (d *diagram) list(w *bufio.Writer) {
	hop, depth := 0, 0
	for _, r := range d.request.Records {
		c := newCanvas(d.style.width(), d.style)
		d.when(c, r)
		var text, color string
		indent := depth + 1
		if r.Message() {
			h := &d.request.Hops[hop]
			depth, indent = h.Depth, h.Depth
			text = fmt.Sprintf("%s → %s  %s", d.short[r.From], d.short[r.To], r.Type)
			if r.Before != r.After {
				text += "  [" + r.Before + " → " + r.After + "]"
			}
			text += "  " + Duration(time.Duration(h.WaitNs)) + " + " + Duration(time.Duration(h.RanNs))
			if hop == d.request.Slowest {
				text, color = "! "+text, colorSlow
			}
			if r.Outcome != "" {
				text, color = text+"  "+r.Outcome, colorFailed
			}
			hop++
		} else {
			text, color = d.glyphs.event+" "+d.short[r.To]+" "+eventText(r), colorEvent
		}
		const deepest = 8
		at := timeColumn + 2*min(indent, deepest)
		c.put(at, fit(d.style.text(text), len(c.cells)-at, d.style.mark()), color)
		c.write(w)
	}
}
