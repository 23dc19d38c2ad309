package soak

import (
	"fmt"
	"slices"
)

// Sample is what a host held at one moment of a run.
type Sample struct {
	Seconds     float64 // since the start
	Goroutines  float64
	Descriptors float64
	PrivateMB   float64 // resident memory that no other process shares
	Processes   float64
	StoreMB     float64 // the index on disk
	LogsMB      float64 // the logs and the audit log on disk
	Calls       float64 // since the start
	Spawns      float64 // of servers, since the start
	P50, P99    float64 // milliseconds, of the calls since the last sample
}

// Series is one of the numbers of a sample, over time.
type Series struct {
	Name string
	// Of is the number.
	Of func(s *Sample) float64
	// Growth is how much more of it than at the beginning, as a share of the median,
	// a run may end with; Slack is what is always allowed. Growth 0: it may grow.
	Growth, Slack float64
}

// All are the series that a run writes. The bounds leave room for what a garbage
// collector and a scheduler do; a leak of one goroutine or descriptor a second is far
// beyond them after some minutes.
var All = []Series{
	{Name: "goroutines", Of: func(s *Sample) float64 { return s.Goroutines }, Growth: 0.25, Slack: 20},
	{Name: "descriptors", Of: func(s *Sample) float64 { return s.Descriptors }, Growth: 0.25, Slack: 20},
	{Name: "private MB", Of: func(s *Sample) float64 { return s.PrivateMB }, Growth: 0.25, Slack: 16},
	{Name: "processes", Of: func(s *Sample) float64 { return s.Processes }, Growth: 0.25, Slack: 4},
	{Name: "store MB", Of: func(s *Sample) float64 { return s.StoreMB }, Growth: 0.5, Slack: 32},
	{Name: "logs MB", Of: func(s *Sample) float64 { return s.LogsMB }}, // up to their bounds
	{Name: "calls", Of: func(s *Sample) float64 { return s.Calls }},
	{Name: "spawns", Of: func(s *Sample) float64 { return s.Spawns }},
	{Name: "p50 ms", Of: func(s *Sample) float64 { return s.P50 }, Growth: 0.5, Slack: 2},
	{Name: "p99 ms", Of: func(s *Sample) float64 { return s.P99 }, Growth: 1, Slack: 100},
}

// Slope is the Theil–Sen estimator of how much y grows with x by one: the median of
// the slopes of all pairs of points, which a quarter of outliers does not move. 0 for
// fewer than two points.
func Slope(x, y []float64) float64 {
	var slopes []float64
	for i := range x {
		for j := range i {
			if x[j] != x[i] {
				slopes = append(slopes, (y[j]-y[i])/(x[j]-x[i]))
			}
		}
	}
	return median(slopes)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// minSamples is how many samples a verdict needs.
const minSamples = 8

// warmUp is the share of a run, at its beginning, that is left out.
const warmUp = 0.25

// Steady says which of the series grew more than they may; nil: none did. Fewer than
// eight samples after the warm-up tell nothing.
func Steady(samples []Sample) (grown []string) {
	samples = samples[int(float64(len(samples))*warmUp):]
	if len(samples) < minSamples {
		return nil
	}
	x, y := make([]float64, len(samples)), make([]float64, len(samples))
	for _, series := range All {
		if series.Growth == 0 {
			continue
		}
		for i := range samples {
			x[i], y[i] = samples[i].Seconds, series.Of(&samples[i])
		}
		grew := Slope(x, y) * (x[len(x)-1] - x[0])
		if allowed := series.Slack + series.Growth*median(y); grew > allowed {
			grown = append(grown, fmt.Sprintf("%s grew by %.1f over the run, at a median of %.1f; %.1f are allowed", series.Name, grew, median(y), allowed))
		}
	}
	return grown
}
