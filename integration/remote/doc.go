// Package remote reaches children over HTTP: Streamable HTTP in both eras of the
// protocol, and the older HTTP+SSE.
//
// A [Link] takes whole JSON-RPC lines and hands back frames, as the pipes of a
// local child do, so that the actor above it need not know the difference. It
// keeps what HTTP adds to itself: the session and its one renewal, the stream
// that the server opens for what it says on its own, resumption, the headers of
// the modern era, the choice of the older transport where a server has only that.
//
// A server is read as if it lied: bodies, events, redirects and waits are
// bounded, and nothing that it says makes the link talk to another origin.
package remote
