// Package demoserver is a small MCP server over stdio that ships inside the
// metamcp binary as `metamcp demo-server`: a child to try things with on a
// machine that has no other, and, through its options, every kind of
// misbehaving child that the end-to-end tests need.
//
// It speaks the four legacy revisions of the protocol (initialize) and the
// stateless one of 2026-07-28, and deliberately uses no MCP library: a server
// that is to send broken listings, late answers and noise needs to decide about
// every byte itself, and the tests need a peer that does not share its bugs
// with the client under test.
package demoserver
