//go:build !race

package worker

// raceFactor is larger under the race detector.
const raceFactor = 1
