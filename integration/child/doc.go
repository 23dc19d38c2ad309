// Package child runs MCP servers as processes: it starts them, carries lines
// between their pipes and one receiver, signals their whole process trees and
// reaps them.
//
// A child costs one goroutine while it lives, the reader of stdout, and others as
// long as bytes come from its stderr or wait for its stdin. For an end, and for
// bytes on stderr, one goroutine waits for all children on Linux, the sentry;
// elsewhere each child has a drain of stderr and a reaper of its own. Where the
// platform allows it none of them holds a thread or a buffer while nothing happens.
//
// The package knows nothing of actors, of the protocol's methods or of
// retries: it reports what happened and leaves the judgement to its caller.
package child
