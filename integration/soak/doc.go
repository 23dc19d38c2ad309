// Package soak looks at a host under a mixed load for hours: whether what it holds
// (goroutines, descriptors, memory, processes, disk) or how long calls take grows with
// time. `make soak` runs it; docs/ISOLATION.md says what is measured.
package soak
