package main

import (
	"bufio"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// table prints rows in columns. The last column is cut where a line would be
// longer than width; 0: never.
type table struct {
	width int
	rows  [][]string
}

// columnGap is the space between two columns.
const columnGap = 2

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) print(out io.Writer) error {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	w := bufio.NewWriter(out)
	for _, row := range t.rows {
		at := 0
		for i, cell := range row {
			if i == len(row)-1 {
				w.WriteString(cutTo(cell, t.width-at, t.width > 0)) //nolint:errcheck // Flush tells
				break
			}
			w.WriteString(cell)                                                                  //nolint:errcheck // Flush tells
			w.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+columnGap)) //nolint:errcheck // Flush tells
			at += widths[i] + columnGap
		}
		w.WriteByte('\n') //nolint:errcheck // Flush tells
	}
	return w.Flush()
}

// cutTo cuts text to so many characters, but leaves some of it in any case.
func cutTo(text string, width int, cut bool) string {
	const least = 20
	width = max(width, least)
	if !cut || utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

// terminalWidth is the width of a terminal; 0 where out is none.
func terminalWidth(out io.Writer) int {
	f, ok := fileOf(out)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	if width == 0 {
		const usual = 80 // a terminal that was told no size
		return usual
	}
	return width
}

// clock writes a time for people, in this machine's zone, which it names.
func clock(t time.Time) string { return t.Local().Format(time.DateTime + " MST") }
