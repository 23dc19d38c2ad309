// Package front is the side of metamcp that MCP clients talk to. It holds no
// actor and no policy: it turns lines into requests, hands them on, and turns
// answers into lines.
//
// # Stdio
//
// [Serve] is a loop of its own around an mcp-go server. mcp-go answers every
// method; the answer to the one spliced tool (mcp_call) does not pass through
// its typed model, which would lose what a child sent. For that tool the loop
// reads the few members it needs from the line, hands the request to the
// [Engine], and puts the child's result into the envelope byte for byte.
//
// A request for the spliced tool costs no change of goroutine: the goroutine
// that reads the client calls the engine, which writes to the child's pipe,
// and the goroutine that reads the child calls the reply port, which writes to
// the client's pipe. Nothing on that path blocks. Messages above 64 KiB are
// checked on a goroutine of their own, so that small ones pass them.
//
// # HTTP
//
// [HTTP] is the same over Streamable HTTP, for many clients. A client of an
// older revision has a session, with a connection value as [Serve] has one; a
// message is handed to it on the goroutine of its request, with the response as
// the place where the answer goes. The handler then writes what comes until the
// answer has. Clients without sessions share a connection value for each
// principal and name. mcp-go's own handler is not used: it loses the last
// notification before an answer.
//
// # Promises
//
//   - Lines reach the client whole and in the order in which they were
//     written; the progress of a request comes before its answer.
//   - Every request gets one answer, except a cancelled one, which gets none.
//   - The loop always reads on: neither a slow tool nor a client that does not
//     read keeps a cancellation from being seen.
//   - At the end of the input the requests in flight are still answered.
//   - Every queue is bounded. A client that reads nothing while 256 MiB wait
//     for it ends its session.
package front
