// Package childlog keeps what children say on stderr, and on stdout where it is no
// message: a bounded file per server and the last lines in memory.
//
// Nothing here can hurt a child: writing never fails and never waits for
// anything but a write to a local file; a flood is cut to a rate, a disk that
// is full or a folder that cannot be written costs the file but not the lines
// in memory.
package childlog
