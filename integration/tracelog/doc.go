// Package tracelog writes the records of a trace: lines for people, JSON for
// machines, and files that turn over. docs/TRACE.md describes the format.
//
// A writer serves one goroutine at a time: the trace's own, so that no actor
// ever waits for a terminal or a disk.
package tracelog
