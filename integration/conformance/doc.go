// Package conformance holds nothing but tests: the protocol's own conformance suite
// judges metamcp as a client of servers over HTTP, as a server over HTTP, and in
// front of a server that the suite judges as well.
package conformance
