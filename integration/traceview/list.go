package traceview

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// Style is how text for a terminal looks.
type Style struct {
	Width int  // columns; 0: 100
	Color bool // with ANSI colours
	ASCII bool // nothing beyond ASCII
	// Location is the time zone of what is shown; nil: the local one.
	Location *time.Location
}

func (s Style) location() *time.Location {
	if s.Location == nil {
		return time.Local
	}
	return s.Location
}

const defaultWidth = 100

func (s Style) width() int {
	if s.Width <= 0 {
		return defaultWidth
	}
	return max(s.Width, minWidth)
}

// minWidth is the narrowest terminal that anything is laid out for.
const minWidth = 30

// text is a text in the characters that the style allows.
func (s Style) text(text string) string {
	if s.ASCII {
		return plainASCII(text)
	}
	return text
}

func (s Style) mark() string { return s.text(cutMark) }

// paint gives text a colour.
func (s Style) paint(color, text string) string {
	if !s.Color || color == "" || text == "" {
		return text
	}
	return color + text + colorNone
}

// The colours, as a terminal takes them.
const (
	colorNone   = "\x1b[0m"
	colorFaint  = "\x1b[2m"
	colorBold   = "\x1b[1m"
	colorFailed = "\x1b[31m"
	colorSlow   = "\x1b[33m"
	colorEvent  = "\x1b[36m"
)

// WriteList writes requests as a table. Only the last column is cut to fit.
func WriteList(out io.Writer, requests []*Request, s Style) error {
	rows := [][]string{{"REQUEST", "AT", "DURATION", "OUTCOME", "MSGS", "CALL", "SLOWEST HOP"}}
	for _, r := range requests {
		rows = append(rows, []string{
			r.Name, r.Start.In(s.location()).Format("15:04:05.000"), Duration(r.Duration), r.ended(), fmt.Sprint(r.Messages), r.call(), r.slowest(),
		})
	}
	const gap = 2
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i := range row {
			row[i] = s.text(row[i])
			widths[i] = max(widths[i], textCells(row[i]))
		}
	}
	const longestCall = 40
	widths[5] = min(widths[5], longestCall)
	w := bufio.NewWriter(out)
	for n, row := range rows {
		at := 0
		for i, cell := range row {
			last := i == len(row)-1
			if last {
				cell = fit(cell, max(s.width()-at, minWidth), s.mark())
			} else {
				cell = fit(cell, widths[i], s.mark())
			}
			pad := strings.Repeat(" ", max(widths[i]-textCells(cell), 0))
			switch {
			case last:
				pad = ""
			case i == 2 || i == 4: // numbers stand right
				cell, pad = pad+cell, ""
			}
			color := ""
			switch {
			case n == 0:
				color = colorBold
			case i == 3 && requests[n-1].Failed:
				color = colorFailed
			}
			fmt.Fprint(w, s.paint(color, cell), pad)
			if !last {
				fmt.Fprint(w, strings.Repeat(" ", gap))
				at += widths[i] + gap
			}
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

func (r *Request) call() string {
	if r.Server == "" {
		switch {
		case r.Tool != "": // a script
			return r.Tool + " (" + plural(r.Calls, "call") + ")"
		case r.Calls > 0: // whose beginning is missing
			return plural(r.Calls, "call")
		}
		return "-"
	}
	if r.Tool == "" {
		return r.Server
	}
	return r.Server + "/" + r.Tool
}

func (r *Request) slowest() string {
	h := r.SlowestHop()
	if h == nil {
		return "-"
	}
	return fmt.Sprintf("%s %s at %s", Duration(h.Cost()), h.Type, suffix(h.To, 1))
}

// Duration is a duration for people: three figures and a unit.
func Duration(d time.Duration) string {
	if d < 0 {
		return "-" + Duration(-max(d, -math.MaxInt64)) // the least number has no opposite
	}
	figures := func(v float64, unit string) string {
		switch {
		case v >= 99.95:
			return fmt.Sprintf("%.0f%s", v, unit)
		case v >= 9.995:
			return fmt.Sprintf("%.1f%s", v, unit)
		}
		return fmt.Sprintf("%.2f%s", v, unit)
	}
	switch {
	case d < time.Microsecond:
		return fmt.Sprintf("%dns", d.Nanoseconds())
	case d < time.Millisecond:
		return figures(float64(d)/float64(time.Microsecond), "µs")
	case d < time.Second:
		return figures(float64(d)/float64(time.Millisecond), "ms")
	case d < time.Minute:
		return figures(d.Seconds(), "s")
	}
	return d.Round(time.Second).String()
}
