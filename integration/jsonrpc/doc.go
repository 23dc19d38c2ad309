// Package jsonrpc reads and writes JSON-RPC 2.0 lines where every microsecond
// counts: it checks that a line is strict JSON and cuts its members out as
// slices of the line, in one pass and without allocating.
//
// # Why not encoding/json
//
// A gateway looks at five or six members of a message and passes the rest on
// byte for byte. encoding/json scans a message once to check it and again to
// decode it, one state-machine step per byte, copies every [json.RawMessage],
// and needs 6 to 20 ms for a line of 1 MB, which is several times what passing
// it on costs. The scanner here walks strings eight bytes at a time and needs
// about half a millisecond for the same line; the benchmarks of this package
// put both side by side. What is small and not on the path of every call is
// still best done with encoding/json.
//
// # What is accepted
//
// Exactly what [encoding/json.Valid] accepts, with one exception: text that is
// not valid UTF-8 is refused, since RFC 8259 asks for it and no reader could
// quote it back. Nesting deeper than [MaxDepth] is refused, as in
// encoding/json. Lone surrogates in \u escapes are accepted and read as
// U+FFFD, as in encoding/json. Where a key occurs twice the last one wins, as
// in encoding/json, JavaScript and Python, so that every reader of the same
// line sees the same message; unlike encoding/json, keys are compared exactly,
// including their case. A message that encoding/json reads as well goes through
// [NewStrictShape], which refuses what the two would read differently.
//
// # Ownership
//
// All functions are pure and may be called from any goroutine. Slices that
// they hand out alias their input; whoever keeps them keeps the input alive
// and must not change it.
package jsonrpc
