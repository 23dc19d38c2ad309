// Package atomicfile replaces small files whole: a reader, another host or a
// crash sees the old one or the new one.
package atomicfile
