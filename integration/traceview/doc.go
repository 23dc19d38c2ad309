// Package traceview reads a trace of metamcp and shows it: as a list of
// requests, as a sequence diagram in the terminal, as one page of HTML, as
// events for Perfetto, and as Mermaid.
//
// [Read] and [ReadFiles] read records of version 1 and 2 of the format that
// docs/TRACE.md describes; a [Builder] takes records one by one, for a viewer
// that is attached to a running host. All three end in a [Trace], which never
// changes again, so that any number of goroutines may render it at once.
//
// What stands in a trace is taken for hostile: names of servers and tools are
// chosen by others. Every text is bounded in length and rid of control and
// direction characters when it is read, and every renderer escapes what its
// format gives a meaning to.
package traceview
