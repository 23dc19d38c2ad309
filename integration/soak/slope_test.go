package soak

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

func TestSlopeIgnoresOutliers(t *testing.T) {
	var x, y []float64
	for i := range 40 {
		x = append(x, float64(i))
		y = append(y, 5+2*float64(i))
	}
	for i := 0; i < 40; i += 5 {
		y[i] = 1e6
	}
	if got := Slope(x, y); math.Abs(got-2) > 0.5 {
		t.Errorf("slope %v", got)
	}
	if Slope(nil, nil) != 0 || Slope([]float64{1}, []float64{1}) != 0 {
		t.Error("a slope out of nothing")
	}
}

// run makes samples of a minute each, whose goroutines are as said.
func run(n int, goroutines func(i int) float64) []Sample {
	out := make([]Sample, n)
	for i := range out {
		out[i] = Sample{
			Seconds: float64(60 * i), Goroutines: goroutines(i), Descriptors: 90 + float64(i%3), PrivateMB: 40 + float64(i%7),
			Processes: 12, StoreMB: 2, Calls: float64(1000 * i), P50: 1, P99: 9 + float64(i%5),
		}
	}
	return out
}

func TestVerdict(t *testing.T) {
	steady := run(60, func(i int) float64 { return 200 + float64(i%11) })
	if grown := Steady(steady); grown != nil {
		t.Errorf("a steady run: %q", grown)
	}
	warm := run(60, func(i int) float64 { return min(float64(100*i), 400) })
	if grown := Steady(warm); grown != nil {
		t.Errorf("a run that warms up: %q", grown)
	}
	leak := run(60, func(i int) float64 { return 200 + 3*float64(i) })
	if grown := Steady(leak); len(grown) != 1 || !strings.HasPrefix(grown[0], "goroutines grew by 132.0") {
		t.Errorf("a leak of three a minute: %q", grown)
	}
	if grown := Steady(run(4, func(i int) float64 { return float64(1000 * i) })); grown != nil {
		t.Errorf("a verdict out of four samples: %q", grown)
	}
}

func TestWhatIsWritten(t *testing.T) {
	samples := run(5, func(i int) float64 { return float64(i) })
	var table, picture bytes.Buffer
	if err := errors.Join(WriteCSV(&table, samples), WriteSVG(&picture, samples), WriteSVG(io.Discard, nil)); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&table).ReadAll()
	if err != nil || len(rows) != 6 || len(rows[5]) != 1+len(All) || rows[5][0] != "240" || rows[5][1] != "4" {
		t.Errorf("rows %q, %v", rows, err)
	}
	lines := 0
	for d := xml.NewDecoder(&picture); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "polyline" {
			lines++
		}
	}
	if lines != len(All) {
		t.Errorf("%d lines", lines)
	}
}
