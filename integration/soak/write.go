package soak

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// WriteCSV writes a line for each sample, below one with the names.
func WriteCSV(w io.Writer, samples []Sample) error {
	out := csv.NewWriter(w)
	row := []string{"seconds"}
	for _, s := range All {
		row = append(row, s.Name)
	}
	_ = out.Write(row) // Error tells
	for i := range samples {
		row = append(row[:0], number(samples[i].Seconds))
		for _, s := range All {
			row = append(row, number(s.Of(&samples[i])))
		}
		_ = out.Write(row)
	}
	out.Flush()
	return out.Error()
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// WriteSVG draws each series in a frame of its own, from 0 to its most.
func WriteSVG(w io.Writer, samples []Sample) error {
	const width, height, gap, left = 720.0, 90.0, 34.0, 10.0
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="12">`+"\n",
		width+2*left, float64(len(All))*(height+gap)+gap)
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	end := 1.0
	if n := len(samples); n > 0 {
		end = max(end, samples[n-1].Seconds)
	}
	for i, s := range All {
		top := gap + float64(i)*(height+gap)
		most := 0.0
		for j := range samples {
			most = max(most, s.Of(&samples[j]))
		}
		fmt.Fprintf(&b, `<text x="%g" y="%g">%s, at most %.4g, over %.0f s</text>`+"\n", left, top-6, s.Name, most, end)
		fmt.Fprintf(&b, `<rect x="%g" y="%g" width="%g" height="%g" fill="none" stroke="#bbb"/>`+"\n", left, top, width, height)
		b.WriteString(`<polyline fill="none" stroke="#0a58ca" points="`)
		for j := range samples {
			y := top + height
			if most > 0 {
				y -= s.Of(&samples[j]) / most * height
			}
			fmt.Fprintf(&b, "%.1f,%.1f ", left+samples[j].Seconds/end*width, y)
		}
		b.WriteString(`"/>` + "\n")
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
