// Package attach is how a process finds a running host and speaks with it: what
// hosts say of themselves on disk, and the handshake after which a connection
// with the control socket is a session of MCP, line by line.
//
// It imports little, so that a client's metamcp reaches its host before the
// rest of the program has begun; docs/HOST.md describes the protocol.
package attach
