package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/metamcp/metamcp/integration/doctor"
)

// printDoctor shows results in groups: one line each, and below what is not
// well why it matters and how to mend it.
func printDoctor(out io.Writer, results []doctor.Result, sum doctor.Summary, l look, verbose bool) error {
	w := bufio.NewWriter(out)
	width := 0
	for i := range results {
		width = max(width, utf8.RuneCountInString(doctorLabel(&results[i])))
	}
	const widest = 36 // what is longer stands out of its column
	width = min(width, widest)
	group := doctor.Group("")
	for i := range results {
		r := &results[i]
		if r.Group != group {
			if group != "" {
				fmt.Fprintln(w)
			}
			group = r.Group
			fmt.Fprintln(w, strings.ToUpper(string(group)))
		}
		l.doctorResult(w, r, width, verbose)
	}
	fmt.Fprintf(w, "\n%s\n", l.summary(sum))
	return w.Flush()
}

func doctorLabel(r *doctor.Result) string {
	if r.Subject == "" {
		return oneLine(r.ID)
	}
	return oneLine(r.ID + " " + r.Subject)
}

func (l look) doctorResult(w io.Writer, r *doctor.Result, width int, verbose bool) {
	mark, colour := "ok  ", greenInk
	switch r.Status {
	case doctor.Warn:
		mark, colour = "warn", yellowInk
	case doctor.Fail:
		mark, colour = "FAIL", redInk
	case doctor.Skipped:
		mark, colour = "skip", plainInk
	case doctor.OK:
		if r.Fixed {
			mark = "done"
		}
	}
	label := doctorLabel(r)
	gap := max(width-utf8.RuneCountInString(label), 0) + columnGap
	fmt.Fprintf(w, "  %s  %s%s%s\n", l.ink(colour, mark), label, strings.Repeat(" ", gap), oneLine(r.Found))
	bad := r.Status == doctor.Warn || r.Status == doctor.Fail
	if bad || verbose {
		line := func(name, text string) {
			if text != "" {
				fmt.Fprintf(w, "        %s  %s\n", name, oneLine(text))
			}
		}
		line("why", r.Why)
		line("fix", r.Fix)
	}
	if bad || verbose || r.Fixed {
		for _, d := range r.Details {
			fmt.Fprintf(w, "          | %s\n", oneLine(d))
		}
	}
}

// summary is the last line.
func (l look) summary(s doctor.Summary) string {
	verdict := l.ink(greenInk, "all is well")
	switch {
	case s.Fail > 0:
		verdict = l.ink(redInk, fmt.Sprintf("%d failed", s.Fail))
	case s.Warn > 0:
		verdict = l.ink(yellowInk, "it works, with warnings")
	}
	text := fmt.Sprintf("%s: %d ok, %s, %d failed, %d skipped", verdict, s.OK, counted(s.Warn, "warning", "warnings"), s.Fail, s.Skipped)
	if s.Fixed > 0 {
		text += fmt.Sprintf(", %d mended", s.Fixed)
	}
	return text
}
