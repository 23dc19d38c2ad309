//go:build race

package worker

// raceFactor is how much more memory and time code takes under the race
// detector.
const raceFactor = 6
