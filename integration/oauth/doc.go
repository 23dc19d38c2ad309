// Package oauth is the client's side of the protocol's authorization: it finds
// out which authorization server is in charge of a remote MCP server, registers
// there, logs a person in through a browser or the client itself without one,
// keeps the tokens, and has them ready for every request.
//
// A [Client] belongs to one MCP server. What both that server and its
// authorization server say is read as if it were a lie: addresses are looked at
// when they are dialled, bodies, waits and redirects are bounded, issuers and
// resources are compared, and nothing secret goes anywhere but where it came
// from.
package oauth
