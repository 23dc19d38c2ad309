// Package atomicfile replaces small files whole: a reader, another host or a
// crash sees the old one or the new one. A process that is killed meanwhile may leave a
// file beside it, whose name begins with a dot.
package atomicfile
