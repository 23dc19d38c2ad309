package traceview

import (
	"bufio"
	"strings"
)

// cell is one column of a line in a terminal.
type cell struct {
	text  string // a rune with its marks; "": the second half of a wide one
	color string
}

// canvas is one line of a terminal.
type canvas struct {
	cells []cell
	style Style
}

func newCanvas(width int, s Style) *canvas {
	c := &canvas{cells: make([]cell, width), style: s}
	for i := range c.cells {
		c.cells[i].text = " "
	}
	return c
}

// put writes text from a column on. What has no room is left out.
func (c *canvas) put(at int, text, color string) {
	text = c.style.text(text)
	for _, r := range text {
		n := cells(r)
		switch {
		case n == 0:
			continue // a mark on a rune: it could be piled up without end
		case at < 0 || at+n > len(c.cells):
			return
		}
		if c.cells[at].text == "" && at > 0 {
			c.cells[at-1].text = " " // its second half is overwritten
		}
		if at+n < len(c.cells) && c.cells[at+n].text == "" {
			c.cells[at+n].text = " "
		}
		c.cells[at] = cell{string(r), color}
		if n == 2 {
			c.cells[at+1] = cell{"", color}
		}
		at += n
	}
}

// write writes the line without the spaces at its end.
func (c *canvas) write(w *bufio.Writer) {
	end := len(c.cells)
	for end > 0 && c.cells[end-1].text == " " {
		end--
	}
	var run strings.Builder
	color := ""
	flush := func() {
		w.WriteString(c.style.paint(color, run.String())) //nolint:errcheck // Flush tells
		run.Reset()
	}
	for _, x := range c.cells[:end] {
		if x.color != color {
			flush()
			color = x.color
		}
		run.WriteString(x.text)
	}
	flush()
	w.WriteByte('\n') //nolint:errcheck // Flush tells
}
