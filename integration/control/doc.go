// Package control is the local control interface of a running host: HTTP over
// a Unix socket (a named pipe on Windows) that only the same user may use, and
// the client of it. docs/CONTROL.md describes the endpoints.
//
// A host announces itself by a file in stateDir/hosts. Whether it still runs is
// told by its socket alone, since a process id may belong to somebody else by
// now; who finds a dead one removes what it left.
package control
