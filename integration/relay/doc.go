// Package relay is metamcp for one client of a host that runs already: it
// copies lines of MCP both ways and keeps the client's session when the host
// restarts or dies.
//
// # Promises
//
//   - A request is never sent to two hosts, unless it only reads: tools/list,
//     server/discover, ping, mcp_discover and the like.
//   - A request that was on its way when the host was lost gets one answer that
//     says that its outcome is unknown; one that surely did not reach a host is
//     sent to the next.
//   - While no host is there, requests wait for a bounded time and are then
//     answered with an error, and the relay goes on looking for a host.
//   - Memory is bounded: a line longer than 64 KiB is passed on as it comes.
//   - Lines reach the client whole. Only where a host dies in the middle of a
//     line above 64 KiB does the client see a broken one, followed by an answer.
//
// A host that ends in order says so first: the relay lets what is in flight
// there end and takes all that is new to the host that comes after it.
package relay
